/** @file tpcl.h  Everything that libtpcl.a offers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_TPCL_H
#define TPCL_TPCL_H

#include <tpcl/attention.h>
#include <tpcl/comm.h>
#include <tpcl/device.h>
#include <tpcl/dtype.h>
#include <tpcl/group.h>
#include <tpcl/kv_cache.h>
#include <tpcl/linear.h>
#include <tpcl/log.h>
#include <tpcl/ops.h>
#include <tpcl/reference.h>
#include <tpcl/sampling.h>
#include <tpcl/shard.h>
#include <tpcl/status.h>
#include <tpcl/team.h>
#include <tpcl/tensor.h>
#include <tpcl/version.h>
#include <tpcl/vocab.h>

#endif

/** @file opencl.h  tpcl inside a program that uses OpenCL itself: its context, queue and buffers.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_OPENCL_H
#define TPCL_OPENCL_H

#include <CL/cl.h>
#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The only header of tpcl that includes CL/cl.h: define CL_TARGET_OPENCL_VERSION before it, as for
 * CL/cl.h itself; 120 is enough. tpcl.h leaves it out.
 *
 * tpcl keeps references of its own to what it is given and gives back only those, so the caller
 * may release a handle at once, or use it as before. Once all that was made from a context is
 * destroyed, and the queue has run what was in it, the reference counts are what they were. One
 * exception: where CLBlast multiplied, it keeps programs of the context until CLBlastClearCache().
 *
 * A queue that both use is in order: what the caller puts into it before a call of tpcl runs
 * before, and what it puts in after runs after. Between queues, events order the work:
 * tpcl_group_wait_for() and tpcl_group_event().
 */

/**
 * A device in the caller's context. The device is used as it is: whole, where it is no sub-device.
 * The context may hold other devices, too.
 *
 * @param context  in   retained
 * @param id       in   one of the context's devices, or sub-devices; retained
 * @param queue    in   of this context and device, in order; retained. NULL: tpcl makes its own
 * @param options  in   NULL = defaults; `select` and `units` must be unset. With `profile` the
 *                      caller's queue must have CL_QUEUE_PROFILING_ENABLE
 * @param out      out  NULL on failure; release with tpcl_device_close(). Its `index` is -1
 * Collective: no.  Blocks: no.  Allocates: yes.
 * Errors: TPCL_ERR_ARG (what does not belong together), TPCL_ERR_UNSUPPORTED (out-of-order queue),
 * TPCL_ERR_NO_DEVICE (not available, or without a compiler), TPCL_ERR_NOMEM, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_device_open_from_cl(cl_context context, cl_device_id id,
                                                    cl_command_queue queue,
                                                    const tpcl_device_options *options,
                                                    tpcl_device **out);

/**
 * What a device works with, of any device of tpcl. Not retained: valid while @p device lives. NULL
 * gives NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
cl_context tpcl_device_context(const tpcl_device *device);
cl_device_id tpcl_device_id(const tpcl_device *device);
cl_command_queue tpcl_device_queue(const tpcl_device *device);

/**
 * A group whose device is the caller's, as in tpcl_device_open_from_cl(). No thread is bound and no
 * sub-device is made; `device` in the options must be unset, `no_binding` has no effect. Ranks may
 * differ in what they give.
 *
 * Collective: on @p comm, which is duplicated.  Blocks: yes.  Allocates: yes.
 * Errors: those of tpcl_device_open_from_cl() and tpcl_comm_create(), agreed by all ranks as in
 * tpcl_group_create().
 */
TPCL_NODISCARD tpcl_status tpcl_group_create_from_cl(MPI_Comm comm, cl_context context,
                                                     cl_device_id id, cl_command_queue queue,
                                                     const tpcl_group_options *options,
                                                     tpcl_group **out);

/**
 * A tensor in the caller's buffer, from byte @p offset_bytes on. Not counted against the device's
 * memory. Wrapping one buffer several times is legal; a call that writes a tensor refuses another
 * one that shares bytes with it, as it refuses the tensor itself.
 *
 * @param device        in   whose context the buffer is of
 * @param mem           in   a buffer or sub-buffer, CL_MEM_READ_WRITE, open to the host; retained.
 *                           A tensor without elements keeps none
 * @param offset_bytes  in   0, or where a sub-buffer may begin: a multiple of
 *                           CL_DEVICE_MEM_BASE_ADDR_ALIGN / 8, counted from the start of the
 *                           buffer that @p mem is a part of
 * @param dtype         in   TPCL_F32 or TPCL_I32
 * @param ndim          in   1..4
 * @param shape         in   elements, each >= 0
 * @param out           out  NULL on failure; release with tpcl_tensor_destroy(), which leaves the
 *                           buffer to the caller
 * Collective: no.  Blocks: no.  Allocates: yes (no device memory).
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE (the buffer is too small), TPCL_ERR_NOMEM, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_tensor_wrap(tpcl_device *device, cl_mem mem, size_t offset_bytes,
                                            tpcl_dtype dtype, int ndim, const int64_t *shape,
                                            tpcl_tensor **out);

/**
 * The buffer that a tensor lies in, element 0 at byte 0, for kernels of the caller; of any tensor.
 * Not retained: valid while @p tensor lives. NULL where there are no elements.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
cl_mem tpcl_tensor_mem(const tpcl_tensor *tensor);

/**
 * An event that completes when all that is in the device's queue has run, for other queues to wait
 * for. The queue is flushed, so that such a wait ends. A collective call is in the queue with its
 * last part; the sums before have then been taken.
 *
 * @param out  out  the caller's: clReleaseEvent(); NULL on failure
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: TPCL_ERR_ARG, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_device_event(tpcl_device *device, cl_event *out);
TPCL_NODISCARD tpcl_status tpcl_group_event(tpcl_group *group, cl_event *out);

/**
 * What is called from here on runs after the caller's events. Their queues are flushed. A user
 * event must be set before the next call that blocks, or by another thread.
 *
 * @param n       in  0 or more
 * @param events  in  [n] of the device's context; not kept by the library. One that has failed is
 *                    refused
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: TPCL_ERR_ARG, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_device_wait_for(tpcl_device *device, int n, const cl_event *events);
TPCL_NODISCARD tpcl_status tpcl_group_wait_for(tpcl_group *group, int n, const cl_event *events);

#ifdef __cplusplus
}
#endif
#endif

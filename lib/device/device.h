/* The inside of a device: queue, program cache, launches. One thread uses a device at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_DEVICE_H
#define TPI_DEVICE_DEVICE_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <tpcl/device.h>
#include <tpcl/tensor.h>

#include "base/error.h"

typedef struct tpi_program tpi_program; /* device/program.c: one built program and its kernels */
typedef struct tpi_ledger tpi_ledger;   /* device/buffer.c: bytes in live buffers */

struct tpcl_device {
    int refs; /* not atomic: a device and its children belong to one thread */
    cl_platform_id platform;
    cl_device_id id;
    bool is_sub_device;   /* made by the library, or one of the caller's that was retained */
    bool made_sub_device; /* made by the library: nobody else keeps it */
    cl_context context;
    cl_command_queue queue;
    tpcl_device_info info;
    tpcl_log log;
    char cache_dir[512]; /* "" = no disk cache */
    bool cache_warned;
    tpi_program *programs; /* list, newest first */
    uint64_t budget_bytes; /* most that all buffers together may take */
    tpi_ledger *ledger;
    tpcl_gemm gemm;
    cl_mem gemm_scratch; /* ops/gemm.c: the one weight that is widened at the moment */
    size_t gemm_scratch_bytes;
};

struct tpcl_tensor {
    tpcl_device *dev; /* retained */
    cl_mem mem;       /* NULL when there are no elements */
    cl_mem root;      /* the buffer that mem is a part of, or mem itself; not retained */
    size_t at;        /* byte in root where mem begins */
    tpcl_dtype dtype;
    int ndim;
    int64_t shape[4];
    size_t bytes;
};

tpcl_device *tpi_device_retain(tpcl_device *dev);
/* The two halves of opening: an object with nothing of OpenCL, and what follows once it has its id,
 * info, context and queue. */
TPCL_NODISCARD tpcl_status tpi_device_alloc(const tpcl_device_options *options, tpcl_device **out);
void tpi_device_ready(tpcl_device *dev, const tpcl_device_options *options);

/* A tensor without its buffer, but for that checked and complete. */
TPCL_NODISCARD tpcl_status tpi_tensor_alloc(tpcl_device *dev, tpcl_dtype dtype, int ndim,
                                            const int64_t *shape, tpcl_tensor **out);
/* Whether the first elements of two tensors share bytes, also as parts of one buffer. No OpenCL
 * call. */
bool tpi_tensor_overlap(const tpcl_tensor *a, size_t a_elements, const tpcl_tensor *b,
                        size_t b_elements);
/* Both begin at the same byte: one may be computed in place of the other. */
bool tpi_tensor_same(const tpcl_tensor *a, const tpcl_tensor *b);

/* Finds or builds program `name` (a file of cl/, embedded) with `options`, then its kernel. The
 * kernel belongs to the cache: do not release it. A compiler error's log is in the message. */
TPCL_NODISCARD tpcl_status tpi_kernel_get(tpcl_device *dev, const char *name, const char *options,
                                          const char *kernel, cl_kernel *out);
/* Stores the binaries of programs that were built from source. Best once all kernels have run; done
 * at the latest when the device is closed. A matter of seconds on PoCL, the first time only. */
void tpi_programs_store(tpcl_device *dev);
void tpi_programs_free(tpcl_device *dev);

/* clCreateBuffer with the checks that drivers lack (0 bytes, allocation limit, memory that is only
 * found missing at first touch). `what` names the buffer in messages. */
TPCL_NODISCARD tpcl_status tpi_buffer_create(tpcl_device *dev, size_t bytes, const char *what,
                                             cl_mem *out);
void tpi_buffer_release(cl_mem *mem);

tpi_ledger *tpi_ledger_create(void);
void tpi_ledger_release(tpi_ledger *ledger); /* NULL is a no-op */
/* Bytes in this device's live buffers. */
uint64_t tpi_device_used_bytes(const tpcl_device *dev);
/* What the host can still give; the largest number where it does not say. */
uint64_t tpi_host_available_bytes(void);

/* A launch in progress: kernel, next argument index, first error. Arguments are pushed in order. */
typedef struct tpi_launch {
    tpcl_device *dev;
    cl_kernel kernel;
    cl_uint next;
    cl_int err;
} tpi_launch;

static inline void tpi_arg(tpi_launch *l, size_t bytes, const void *value)
{
    if (l->err == CL_SUCCESS) l->err = clSetKernelArg(l->kernel, l->next, bytes, value);
    l->next++;
}
static inline void tpi_arg_mem(tpi_launch *l, cl_mem mem)
{
    tpi_arg(l, sizeof mem, &mem);
}
static inline void tpi_arg_int(tpi_launch *l, int value)
{
    const cl_int v = value;
    tpi_arg(l, sizeof v, &v);
}
static inline void tpi_arg_float(tpi_launch *l, float value)
{
    tpi_arg(l, sizeof value, &value);
}
static inline void tpi_arg_ulong(tpi_launch *l, uint64_t value)
{
    const cl_ulong v = value;
    tpi_arg(l, sizeof v, &v);
}
/* Enqueues; a zero in `global` is a no-op. `what` names the op in messages. */
TPCL_NODISCARD tpcl_status tpi_launch_run(tpi_launch *l, int dims, const size_t *global,
                                          const size_t *local, const char *what);

/* "CL_OUT_OF_RESOURCES"; "OpenCL error" for codes without a name. */
const char *tpi_cl_name(cl_int err);
/* Message "what: CL_OUT_OF_RESOURCES (-5)". */
tpcl_status tpi_cl_check(cl_int err, const char *what);
/* status = TPI_CL(clFoo(...)); turns a cl_int into a tpcl_status with a message. */
#define TPI_CL(call) tpi_cl_check((call), #call)

#endif

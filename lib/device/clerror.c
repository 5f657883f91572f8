/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "device/device.h"

#define CL_NAMES(X)                                                                                \
    X(CL_DEVICE_NOT_FOUND)                                                                         \
    X(CL_DEVICE_NOT_AVAILABLE)                                                                     \
    X(CL_COMPILER_NOT_AVAILABLE)                                                                   \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                                                            \
    X(CL_OUT_OF_RESOURCES)                                                                         \
    X(CL_OUT_OF_HOST_MEMORY) X(CL_PROFILING_INFO_NOT_AVAILABLE) X(CL_MEM_COPY_OVERLAP) X(          \
        CL_BUILD_PROGRAM_FAILURE) X(CL_MAP_FAILURE) X(CL_MISALIGNED_SUB_BUFFER_OFFSET)             \
        X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) X(CL_COMPILE_PROGRAM_FAILURE) X(           \
            CL_LINKER_NOT_AVAILABLE) X(CL_LINK_PROGRAM_FAILURE) X(CL_DEVICE_PARTITION_FAILED)      \
            X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE) X(CL_INVALID_VALUE) X(CL_INVALID_DEVICE_TYPE) X(   \
                CL_INVALID_PLATFORM) X(CL_INVALID_DEVICE) X(CL_INVALID_CONTEXT)                    \
                X(CL_INVALID_QUEUE_PROPERTIES) X(CL_INVALID_COMMAND_QUEUE) X(CL_INVALID_HOST_PTR)  \
                    X(CL_INVALID_MEM_OBJECT) X(CL_INVALID_BINARY) X(CL_INVALID_BUILD_OPTIONS)      \
                        X(CL_INVALID_PROGRAM) X(CL_INVALID_PROGRAM_EXECUTABLE)                     \
                            X(CL_INVALID_KERNEL_NAME) X(CL_INVALID_KERNEL_DEFINITION) X(           \
                                CL_INVALID_KERNEL) X(CL_INVALID_ARG_INDEX) X(CL_INVALID_ARG_VALUE) \
                                X(CL_INVALID_ARG_SIZE) X(CL_INVALID_KERNEL_ARGS)                   \
                                    X(CL_INVALID_WORK_DIMENSION) X(CL_INVALID_WORK_GROUP_SIZE) X(  \
                                        CL_INVALID_WORK_ITEM_SIZE) X(CL_INVALID_GLOBAL_OFFSET)     \
                                        X(CL_INVALID_EVENT_WAIT_LIST) X(CL_INVALID_EVENT) X(       \
                                            CL_INVALID_OPERATION) X(CL_INVALID_BUFFER_SIZE)        \
                                            X(CL_INVALID_GLOBAL_WORK_SIZE) X(CL_INVALID_PROPERTY)  \
                                                X(CL_INVALID_COMPILER_OPTIONS)                     \
                                                    X(CL_INVALID_LINKER_OPTIONS)                   \
                                                        X(CL_INVALID_DEVICE_PARTITION_COUNT)

const char *tpi_cl_name(cl_int err)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
#define X(code) {code, #code},
        CL_NAMES(X)
#undef X
            {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == err) return names[i].name;
    return "OpenCL error";
}

/* Where a whole call was given (TPI_CL), its name is enough for the message. */
static int name_length(const char *what)
{
    return (int)(strncmp(what, "cl", 2) == 0 ? strcspn(what, "(") : strlen(what));
}

tpcl_status tpi_cl_check(cl_int err, const char *what)
{
    if (err == CL_SUCCESS) return TPCL_OK;
    const bool memory = err == CL_MEM_OBJECT_ALLOCATION_FAILURE || err == CL_OUT_OF_RESOURCES;
    const tpcl_status status = memory                         ? TPCL_ERR_DEVICE_MEM
                               : err == CL_OUT_OF_HOST_MEMORY ? TPCL_ERR_NOMEM
                                                              : TPCL_ERR_DEVICE;
    return tpi_fail(status, "%.*s: %s (%d)", name_length(what), what, tpi_cl_name(err), err);
}

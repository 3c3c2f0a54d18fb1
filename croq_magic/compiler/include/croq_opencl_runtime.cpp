// The functions of croq_opencl_runtime.h, for programs that include croq_host_opencl.h.
#define CROQ_DEVICE_FUNCTION
#include "croq_opencl_runtime.h"

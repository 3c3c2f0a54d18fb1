// OpenCL as the device of whole programs. A text that is to be compiled alone has everything; else the functions of
// croq_opencl_runtime.h are compiled apart, once: they take longer than most programs.
#pragma once
#ifndef CROQ_SELF_CONTAINED
#define CROQ_DEVICE_FUNCTION
#endif
#include "croq_opencl_module.h"
#include "croq_simt.h"
#ifdef CROQ_SELF_CONTAINED
#include "croq_opencl_runtime.h"
#endif

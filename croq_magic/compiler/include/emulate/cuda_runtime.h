// CUDA text is compiled behind croq_emulate.h, which has what this header declares for kernels.
#pragma once

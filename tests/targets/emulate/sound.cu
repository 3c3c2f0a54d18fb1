#define K(name) extern "C" __global__ void name(int* a, int* b, float* f, int n)
typedef unsigned long long word;

// clean flag_by_volatile_and_fence [2, 1]
K(flag_by_volatile_and_fence) {
  volatile int* flag = b + 1023;
  if (blockIdx.x == 0) {
    b[0] = 7;
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {}
    __threadfence();
    b[1] = b[0] + 1;
  }
}
// clean flag_by_atomics [2, 64]
K(flag_by_atomics) {
  if (blockIdx.x == 0) {
    b[threadIdx.x] = a[threadIdx.x] * 2;
    __syncthreads();
    if (threadIdx.x == 0) { __threadfence(); atomicExch(b + 1023, 1); }
  } else {
    if (threadIdx.x == 0) {
      while (atomicAdd(b + 1023, 0) == 0) {}
      __threadfence();
    }
    __syncthreads();
    b[64 + threadIdx.x] = b[63 - threadIdx.x];
  }
}
// clean fences_of_all_before_the_barrier [2, 64]
K(fences_of_all_before_the_barrier) {
  if (blockIdx.x == 0) {
    b[threadIdx.x] = a[threadIdx.x] * 2;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(b + 1023, 1);
  } else {
    if (threadIdx.x == 0)
      while (atomicAdd(b + 1023, 0) == 0) {}
    __syncthreads();
    b[64 + threadIdx.x] = b[63 - threadIdx.x];
  }
}
// clean last_block_adds_up [5, 64]
K(last_block_adds_up) {
  __shared__ bool last;
  b[64 + blockIdx.x * 64 + threadIdx.x] = a[threadIdx.x] + blockIdx.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc((unsigned*)b + 1023, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += b[64 + i * 64 + threadIdx.x];
    b[threadIdx.x] = sum;
  }
}
// clean chain_of_blocks [9, 32]
K(chain_of_blocks) {
  const int i = blockIdx.x;
  if (threadIdx.x == 0) {
    volatile int* done = b + 900;
    if (i) while (done[i - 1] == 0) {}
    __threadfence();
    int sum = 0;
    for (int j = 0; j < i; ++j) sum += b[j];
    b[i] = sum + 1;
    __threadfence();
    done[i] = 1;
  }
}
// clean look_back [9, 32]
K(look_back) {
  volatile int* state = b + 900;
  const int i = blockIdx.x;
  if (threadIdx.x == 0) {
    b[100 + i] = a[i];
    __threadfence();
    atomicExch(b + 900 + i, 1);
    int sum = a[i];
    for (int j = i - 1; j >= 0; --j) {
      int now;
      while ((now = state[j]) == 0) {}
      __threadfence();
      sum += now == 2 ? b[200 + j] : b[100 + j];
      if (now == 2) break;
    }
    b[200 + i] = sum;
    b[i] = sum;
    __threadfence();
    atomicExch(b + 900 + i, 2);
  }
}
// clean spin_lock [5, 3]
K(spin_lock) {
  for (bool done = false; !done;)
    if (atomicCAS(b + 1023, 0, 1) == 0) {
      __threadfence();
      b[0] = b[0] + 1;
      b[1 + b[0] % 7] += b[0];
      __threadfence();
      atomicExch(b + 1023, 0);
      done = true;
    }
}
// clean ticket_lock [4, 2]
K(ticket_lock) {
  const int mine = atomicAdd(b + 1022, 1);
  volatile int* turn = b + 1023;
  while (*turn != mine) {}
  __threadfence();
  b[0] = b[0] * 3 + 1;
  __threadfence();
  *turn = mine + 1;
}
// clean flag_within_the_block [1, 64]
K(flag_within_the_block) {
  __shared__ int flag, data;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    data = 3;
    __threadfence_block();
    *(volatile int*)&flag = 1;
  } else if (threadIdx.x == 32) {
    while (*(volatile int*)&flag == 0) {}
    __threadfence_block();
    b[0] = data;
  }
}
// clean own_grid_barrier [6, 32] cooperative
K(own_grid_barrier) {
  for (int r = 0; r < 3; ++r) {
    b[r * 192 + blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x] + blockIdx.x * 100 + r;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(b + 1023, 1);
      while (atomicAdd(b + 1023, 0) < (r + 1) * (int)gridDim.x) {}
      __threadfence();
    }
    __syncthreads();
    f[r * 192 + blockIdx.x * 32 + threadIdx.x] = b[r * 192 + (blockIdx.x + 1) % 6 * 32 + 31 - threadIdx.x];
  }
}
// clean grid_barrier_by_sense [4, 64] cooperative
K(grid_barrier_by_sense) {
  volatile int* sense = b + 1022;
  for (int r = 0; r < 2; ++r) {
    b[r * 256 + blockIdx.x * 64 + threadIdx.x] = threadIdx.x + r;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      const int before = *sense;
      if (atomicAdd(b + 1023, 1) == gridDim.x - 1) {
        atomicExch(b + 1023, 0);
        __threadfence();
        *sense = before + 1;
      } else {
        while (*sense == before) {}
      }
      __threadfence();
    }
    __syncthreads();
    f[r * 256 + blockIdx.x * 64 + threadIdx.x] = b[r * 256 + (blockIdx.x + 3) % 4 * 64 + threadIdx.x];
  }
}
// clean warp_tree_with_syncwarp [1, 64]
K(warp_tree_with_syncwarp) {
  __shared__ int s[64];
  const int lane = threadIdx.x % 32;
  s[threadIdx.x] = a[threadIdx.x];
  __syncwarp();
  for (int d = 16; d; d /= 2) {
    const int v = lane < d ? s[threadIdx.x + d] : 0;
    __syncwarp();
    if (lane < d) s[threadIdx.x] += v;
    __syncwarp();
  }
  if (lane == 0) b[threadIdx.x / 32] = s[threadIdx.x];
}
// clean shuffles_order_memory [1, 32]
K(shuffles_order_memory) {
  __shared__ int s[32];
  s[threadIdx.x] = a[threadIdx.x];
  __syncwarp();
  b[threadIdx.x] = s[31 - threadIdx.x];
  __syncwarp();
  s[threadIdx.x] = 5;
  __syncwarp();
  b[32 + threadIdx.x] = s[threadIdx.x ^ 1];
}
// clean halves_of_a_warp [1, 32]
K(halves_of_a_warp) {
  __shared__ int s[32];
  const unsigned mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  s[threadIdx.x] = a[threadIdx.x];
  __syncwarp(mask);
  b[threadIdx.x] = s[threadIdx.x ^ 15];
}
// clean ragged_warp [1, 45]
K(ragged_warp) {
  const unsigned mask = __ballot_sync(threadIdx.x < 32 ? ~0u : (1u << 13) - 1, true);
  int v = threadIdx.x;
  for (int d = 16; d; d /= 2) {
    const int other = __shfl_down_sync(mask, v, d);
    if (threadIdx.x % 32 + d < __popc(mask)) v += other;
  }
  if (threadIdx.x % 32 == 0) b[threadIdx.x / 32] = v;
}
// clean block_reduction [2, 128]
K(block_reduction) {
  __shared__ int part[4];
  int v = a[blockIdx.x * 128 + threadIdx.x];
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < 4 ? part[threadIdx.x] : 0;
    for (int d = 2; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) atomicAdd(b, v);
  }
}
// clean scan_in_shared_memory [1, 64]
K(scan_in_shared_memory) {
  __shared__ int s[2][64];
  int in = 0;
  s[0][threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  for (int d = 1; d < 64; d *= 2, in ^= 1) {
    s[in ^ 1][threadIdx.x] = s[in][threadIdx.x] + (threadIdx.x >= d ? s[in][threadIdx.x - d] : 0);
    __syncthreads();
  }
  b[threadIdx.x] = s[in][threadIdx.x];
}
// clean histogram [3, 64]
K(histogram) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[a[threadIdx.x] % 8], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(b + threadIdx.x, bins[threadIdx.x]);
}
// clean double_buffer [1, 32]
K(double_buffer) {
  __shared__ __align__(16) int s[2][128];
  croq_async_copy<16>(&s[0][4 * threadIdx.x], a + 4 * threadIdx.x);
  croq_async_commit();
  for (int i = 0; i < 5; ++i) {
    if (i + 1 < 5) croq_async_copy<16>(&s[(i + 1) % 2][4 * threadIdx.x], a + (i + 1) * 128 + 4 * threadIdx.x);
    croq_async_commit();
    croq_async_wait<1>();
    __syncthreads();
    for (int j = 0; j < 4; ++j) b[i * 128 + 4 * threadIdx.x + j] = s[i % 2][127 - 4 * threadIdx.x - j];
    __syncthreads();
  }
}
// clean source_written_after_wait_and_barrier [1, 64]
K(source_written_after_wait_and_barrier) {
  __shared__ __align__(16) int s[2][64];
  for (int i = 0; i < 3; ++i) {
    croq_async_copy<4>(&s[i % 2][threadIdx.x], a + threadIdx.x);
    croq_async_commit();
    a[64 + threadIdx.x] = i;  // beside it
    croq_async_wait<0>();
    __syncthreads();
    a[63 - threadIdx.x] = s[i % 2][threadIdx.x] + 1;
    __syncthreads();
  }
  b[threadIdx.x] = a[threadIdx.x];
}
// clean own_source_written_after_the_wait [1, 32]
K(own_source_written_after_the_wait) {
  __shared__ __align__(16) int s[32];
  croq_async_copy_zfill<4>(s + threadIdx.x, a + threadIdx.x, threadIdx.x % 2 ? 0 : 4);
  if (threadIdx.x % 2) a[threadIdx.x] = 9;  // nothing is read there
  croq_async_wait_all();
  a[threadIdx.x] = 5;
  b[threadIdx.x] = s[threadIdx.x];
}
// clean memory_copied_and_set [1, 64]
K(memory_copied_and_set) {
  __shared__ int s[64];
  struct { char c; int v; } p;
  memset(&p, 0, sizeof p);
  memcpy(&p.v, a + threadIdx.x, 4);
  memcpy(s + threadIdx.x, &p.v, sizeof p.v);
  __syncthreads();
  if (threadIdx.x % 4 == 0) memcpy(b + threadIdx.x, s + 60 - threadIdx.x, 16);
  else if (threadIdx.x == 1) memset(b + 64, 255, 8);
}
// clean three_stages [1, 32]
K(three_stages) {
  __shared__ __align__(16) int s[3][32];
  for (int i = 0; i < 2; ++i) {
    croq_async_copy<4>(&s[i][threadIdx.x], a + i * 32 + threadIdx.x);
    croq_async_commit();
  }
  for (int i = 0; i < 7; ++i) {
    croq_async_wait<1>();
    __syncthreads();
    if (i + 2 < 7) croq_async_copy<4>(&s[(i + 2) % 3][threadIdx.x], a + (i + 2) * 32 + threadIdx.x);
    croq_async_commit();
    b[i * 32 + threadIdx.x] = s[i % 3][31 - threadIdx.x];
  }
}
// clean own_copies_need_no_barrier [1, 64]
K(own_copies_need_no_barrier) {
  __shared__ __align__(16) int s[64];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);
  croq_async_wait_all();
  b[threadIdx.x] = s[threadIdx.x] + 1;
}
// clean named_barriers_of_two_roles [1, 128]
K(named_barriers_of_two_roles) {
  __shared__ int slot[64];
  const int t = threadIdx.x % 64;
  for (int i = 0; i < 5; ++i)
    if (threadIdx.x < 64) {
      if (i) croq_bar_sync(1, 128);
      slot[t] = a[i * 64 + t];
      croq_bar_arrive(2, 128);
    } else {
      croq_bar_sync(2, 128);
      b[i * 64 + t] = slot[63 - t];
      if (i < 4) croq_bar_arrive(1, 128);
    }
}
// clean two_named_barriers_of_one_block [1, 128]
K(two_named_barriers_of_one_block) {
  __shared__ int s[128];
  const int half = threadIdx.x / 64;
  for (int i = 0; i < 3; ++i) {
    s[threadIdx.x] = a[threadIdx.x] + i;
    croq_bar_sync(1 + half, 64);
    b[threadIdx.x] = s[threadIdx.x ^ 63];
    croq_bar_sync(1 + half, 64);
  }
}
// clean ring_of_mbarriers [1, 96]
K(ring_of_mbarriers) {
  __shared__ int s[2][32];
  __shared__ word full[2], freed[2];
  const int t = threadIdx.x % 32;
  if (threadIdx.x < 2) {
    croq_mbarrier_init(&full[threadIdx.x], 32);
    croq_mbarrier_init(&freed[threadIdx.x], 64);
  }
  __syncthreads();
  for (int i = 0; i < 7; ++i)
    if (threadIdx.x < 32) {
      croq_mbarrier_wait(&freed[i % 2], i / 2 + 1);
      s[i % 2][t] = a[i * 32 + t];
      croq_mbarrier_arrive(&full[i % 2]);
    } else {
      croq_mbarrier_wait(&full[i % 2], i / 2);
      if (threadIdx.x < 64) b[i * 32 + t] = s[i % 2][31 - t];
      else f[i * 32 + t] = s[i % 2][t];
      croq_mbarrier_arrive(&freed[i % 2]);
    }
}
// clean elected_producer [1, 64]
K(elected_producer) {
  __shared__ int s[3][8];
  __shared__ word full[3], freed[3];
  if (threadIdx.x == 0)
    for (int i = 0; i < 3; ++i) croq_mbarrier_init(&full[i], 1), croq_mbarrier_init(&freed[i], 32);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; ++i) {
      croq_mbarrier_wait(&freed[i % 3], i / 3 + 1);
      for (int j = 0; j < 8; ++j) s[i % 3][j] = a[i * 8 + j];
      croq_mbarrier_arrive(&full[i % 3]);
    }
  } else if (threadIdx.x >= 32) {
    for (int i = 0; i < 8; ++i) {
      croq_mbarrier_wait(&full[i % 3], i / 3);
      if (threadIdx.x < 40) b[i * 8 + threadIdx.x % 8] = s[i % 3][7 - threadIdx.x % 8];
      croq_mbarrier_arrive(&freed[i % 3]);
    }
  }
}
// clean grid_barrier [5, 32] cooperative
K(grid_barrier) {
  __shared__ int own[32];
  own[threadIdx.x] = a[threadIdx.x] + blockIdx.x * 100;
  for (int r = 0; r < 3; ++r) {
    b[blockIdx.x * 32 + threadIdx.x] = own[threadIdx.x];
    croq_grid_sync((unsigned*)b + 1020, gridDim.x);
    own[threadIdx.x] = b[(blockIdx.x + 1) % 5 * 32 + threadIdx.x];
    croq_grid_sync((unsigned*)b + 1020, gridDim.x);
  }
  b[blockIdx.x * 32 + threadIdx.x] = own[threadIdx.x];
}
// clean bytes_of_one_word [1, 64]
K(bytes_of_one_word) {
  ((unsigned char*)b)[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x < 16) b[16 + threadIdx.x] = b[threadIdx.x];
}
// clean wide_and_narrow [1, 32]
K(wide_and_narrow) {
  __shared__ __align__(16) int s[128];
  *(int4*)(s + 4 * threadIdx.x) = *(const int4*)(a + 4 * threadIdx.x);
  __syncthreads();
  for (int i = 0; i < 4; ++i) b[i * 32 + threadIdx.x] = s[i * 32 + threadIdx.x];
}
struct Pair { int left, right; };
struct Four { int v[4]; };
// clean structs_need_no_more_than_their_own_alignment [1, 8]
K(structs_need_no_more_than_their_own_alignment) {
  __shared__ Pair s[9];
  const Pair* from = (const Pair*)(a + 1);
  s[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  Four all = *(const Four*)(a + 1 + threadIdx.x);
  *(Pair*)(b + 1 + 2 * threadIdx.x) = s[7 - threadIdx.x];
  *(Four*)(b + 101 + 4 * threadIdx.x) = all;
}
// clean parity_of_blocks [4, 32]
K(parity_of_blocks) {
  b[(blockIdx.x * 32 + threadIdx.x) * 2 % 256 + (blockIdx.x / 4)] = 1;
  atomicAdd((int*)f + 512, 0);
}
// clean early_end_of_whole_warps [1, 96]
K(early_end_of_whole_warps) {
  __shared__ int s[64];
  if (threadIdx.x >= 64) return;
  s[threadIdx.x] = a[threadIdx.x];
  croq_bar_sync(3, 64);
  b[threadIdx.x] = s[63 - threadIdx.x];
}
// clean same_value_by_atomics [2, 64]
K(same_value_by_atomics) {
  atomicMax(b, a[threadIdx.x] + blockIdx.x);
  atomicOr(b + 1, 1 << threadIdx.x % 31);
  atomicExch(b + 2, 9);
}
// clean compare_and_swap_loop [2, 33]
K(compare_and_swap_loop) {
  int old = *(volatile int*)b, seen;
  do {
    seen = old;
    old = atomicCAS(b, seen, seen + 2);
  } while (old != seen);
}
// clean many_shared_arrays [1, 32]
K(many_shared_arrays) {
  __shared__ char c[33];
  __shared__ double d[32];
  __shared__ short h[33];
  __shared__ int2 v[32];
  c[threadIdx.x] = threadIdx.x, h[threadIdx.x] = 2 * threadIdx.x, d[threadIdx.x] = 0.5 * threadIdx.x;
  v[threadIdx.x] = make_int2(threadIdx.x, -1);
  if (threadIdx.x == 0) c[32] = 32, h[32] = 64;
  __syncthreads();
  const int t = 31 - threadIdx.x;
  b[threadIdx.x] = c[t + 1] + h[t + 1] + (int)(d[t] * 2) + v[t].x + v[t].y;
}
// clean pointers_to_the_end [1, 32]
K(pointers_to_the_end) {
  __shared__ int s[32];
  int* p = s;
  for (int i = 0; i < 1; ++i) p[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  int sum = 0;
  for (const int *q = s, *end = s + 32; q != end; ++q) sum += *q;
  b[threadIdx.x] = sum;
}
// clean dynamic_memory_in_parts [2, 32] shared=384
K(dynamic_memory_in_parts) {
  extern __shared__ int raw[];
  int* left = raw;
  double* right = (double*)(raw + 32);
  left[threadIdx.x] = threadIdx.x;
  right[threadIdx.x] = threadIdx.x;
  __syncthreads();
  b[blockIdx.x * 32 + threadIdx.x] = left[31 - threadIdx.x] + (int)right[31 - threadIdx.x];
}

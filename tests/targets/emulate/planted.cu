#include <assert.h>
#include <stdlib.h>
#define K(name) extern "C" __global__ void name(int* a, int* b, float* f, int n)
static __device__ __noinline__ int get(const int* p, int i) { return p[i]; }  //? get
static __device__ __noinline__ void put(int* p, int i, int v) { p[i] = v; }  //? put

// race race_of_warps [1, 64]
K(race_of_warps) {
  __shared__ int s[64];
  s[threadIdx.x] = a[threadIdx.x];  //!
  b[threadIdx.x] = s[63 - threadIdx.x];  //!
}
// race lanes_without_syncwarp [1, 32]
K(lanes_without_syncwarp) {
  __shared__ int s[32];
  s[threadIdx.x] = a[threadIdx.x];  //!
  b[threadIdx.x] = s[31 - threadIdx.x];  //!
}
// race global_memory_of_one_block [1, 64]
K(global_memory_of_one_block) {
  b[threadIdx.x] = threadIdx.x;  //!
  f[threadIdx.x] = b[threadIdx.x ^ 33];  //!
}
// race blocks_count_without_atomics [3, 1]
K(blocks_count_without_atomics) {
  b[0] = b[0] + 1;  //!
}
// race update_and_plain_read [1, 64]
K(update_and_plain_read) {
  atomicAdd(b, 1);  //!
  f[threadIdx.x] = b[0];  //!
}
// race slot_overwritten_in_the_next_turn [1, 64]
K(slot_overwritten_in_the_next_turn) {
  __shared__ int s[64];
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    s[threadIdx.x] = a[threadIdx.x + i];  //!
    __syncthreads();
    sum += s[63 - threadIdx.x];  //!
  }
  b[threadIdx.x] = sum;
}
// race halves_of_a_warp_in_lockstep [1, 32]
K(halves_of_a_warp_in_lockstep) {
  __shared__ int s[32];
  s[threadIdx.x] = a[threadIdx.x];
  __syncwarp();
  if (threadIdx.x < 16) {
    int v = s[threadIdx.x + 8];  //!
    s[threadIdx.x] = v;  //!
  }
  b[threadIdx.x] = s[threadIdx.x];
}
// race syncwarp_between_warps [1, 64]
K(syncwarp_between_warps) {
  __shared__ int s[64];
  s[threadIdx.x] = a[threadIdx.x];  //!
  __syncwarp();
  b[threadIdx.x] = s[(threadIdx.x + 1) % 64];  //!
}
// race last_block_without_barrier [4, 64]
K(last_block_without_barrier) {
  __shared__ int last;
  b[1 + blockIdx.x * 64 + threadIdx.x] = threadIdx.x;  //!
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(b, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0)
    for (int i = 0; i < 256; ++i)
      f[0] += b[1 + i];  //!
}
// race last_block_without_fence [4, 64]
K(last_block_without_fence) {
  __shared__ int last;
  b[1 + blockIdx.x * 64 + threadIdx.x] = threadIdx.x;  //!
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(b, 1) == gridDim.x - 1;
  __syncthreads();
  if (last) f[threadIdx.x] = b[1 + threadIdx.x];  //!
}
// race last_block_with_a_fence_of_the_block [4, 64]
K(last_block_with_a_fence_of_the_block) {
  __shared__ int last;
  b[1 + blockIdx.x * 64 + threadIdx.x] = threadIdx.x;  //!
  __threadfence_block();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(b, 1) == gridDim.x - 1;
  __syncthreads();
  if (last) f[threadIdx.x] = b[1 + threadIdx.x];  //!
}
// race fence_after_the_flag [2, 1]
K(fence_after_the_flag) {
  volatile int* flag = b;
  if (blockIdx.x == 0) {
    b[1] = 7;  //!
    *flag = 1;
    __threadfence();
  } else {
    while (*flag == 0) {}
    f[0] = b[1];  //!
  }
}
// race lock_without_release_fence [3, 2]
K(lock_without_release_fence) {
  for (bool done = false; !done;)
    if (atomicCAS(b, 0, 1) == 0) {
      b[1] = b[1] + 1;  //!
      atomicExch(b, 0);
      done = true;
    }
}
// race acquired_by_another_thread [2, 64]
K(acquired_by_another_thread) {
  if (blockIdx.x == 0) {
    b[1 + threadIdx.x] = 5;  //!
    __syncthreads();
    if (threadIdx.x == 0) { __threadfence(); atomicExch(b, 1); }
  } else {
    if (threadIdx.x == 0)
      while (atomicAdd(b, 0) == 0) {}
    f[threadIdx.x] = b[1 + threadIdx.x];  //!
  }
}
// race flag_within_the_block_without_fence [1, 64]
K(flag_within_the_block_without_fence) {
  __shared__ int flag, data;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    data = 3;  //!
    *(volatile int*)&flag = 1;
  } else if (threadIdx.x == 32) {
    while (*(volatile int*)&flag == 0) {}
    b[0] = data;  //!
  }
}
// race named_barrier_of_too_few [1, 96]
K(named_barrier_of_too_few) {
  __shared__ int s[96];
  s[threadIdx.x] = a[threadIdx.x];  //!
  if (threadIdx.x < 64) {
    croq_bar_sync(1, 64);
    b[threadIdx.x] = s[threadIdx.x + 16];  //!
  }
}
// race first_parity_is_wrong [1, 64]
K(first_parity_is_wrong) {
  __shared__ int s[32];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) croq_mbarrier_init(&full, 32);
  if (threadIdx.x < 32) s[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] = a[threadIdx.x];  //!
    croq_mbarrier_arrive(&full);
  } else {
    croq_mbarrier_wait(&full, 1);
    b[threadIdx.x] = s[63 - threadIdx.x];  //!
  }
}
// deadlock ring_whose_slots_are_not_freed [1, 64]
K(ring_whose_slots_are_not_freed) {
  __shared__ int s[2][32];
  __shared__ unsigned long long full[2];
  if (threadIdx.x < 2) croq_mbarrier_init(&full[threadIdx.x], 32);
  __syncthreads();
  const int t = threadIdx.x % 32;
  for (int i = 0; i < 5; ++i)
    if (threadIdx.x < 32) {
      s[i % 2][t] = a[i * 32 + t];
      croq_mbarrier_arrive(&full[i % 2]);
    } else {
      croq_mbarrier_wait(&full[i % 2], i / 2 % 2);  //!
      b[i * 32 + t] = s[i % 2][31 - t];
    }
}
// race bytes_and_a_word [1, 33]
K(bytes_and_a_word) {
  __shared__ int s[16];
  ((unsigned char*)s)[threadIdx.x] = threadIdx.x;  //!
  if (threadIdx.x == 3) s[4] = 1;  //!
  __syncthreads();
  b[threadIdx.x] = s[threadIdx.x / 4 % 8];
}
// race bits_of_one_word [1, 64]
K(bits_of_one_word) {
  int* word = b + threadIdx.x / 8;
  put(word, 0, 1 << threadIdx.x % 8);  //= put
}
// race mask_of_half_a_warp [1, 32]
K(mask_of_half_a_warp) {
  __shared__ int s[32];
  s[threadIdx.x] = a[threadIdx.x];  //!
  if (threadIdx.x < 16) __syncwarp(0xffff);
  else __syncwarp(0xffff0000);
  b[threadIdx.x] = s[31 - threadIdx.x];  //!
}
// race copy_over_what_others_read [1, 64]
K(copy_over_what_others_read) {
  __shared__ __align__(16) int s[64];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = s[63 - threadIdx.x];  //!
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  croq_async_wait_all();
  __syncthreads();
}
// race blocks_exchange_rows [4, 32]
K(blocks_exchange_rows) {
  b[blockIdx.x * 32 + threadIdx.x] = 1;  //!
  f[blockIdx.x * 32 + threadIdx.x] = b[(blockIdx.x + 1) % 4 * 32 + threadIdx.x];  //!
}
// race shared_pointer_in_functions [1, 64]
K(shared_pointer_in_functions) {
  __shared__ int s[64];
  put(s, threadIdx.x, 1);  //= put
  b[threadIdx.x] = get(s, threadIdx.x ^ 32);  //= get
}
// race copy_from_what_is_then_written [1, 32]
K(copy_from_what_is_then_written) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  a[(threadIdx.x + 1) % 32] = 1;  //!
  croq_async_wait_all();
  b[threadIdx.x] = s[threadIdx.x];
}
// pending copy read_before_the_wait [1, 32]
K(read_before_the_wait) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  croq_async_commit();
  b[threadIdx.x] = s[threadIdx.x];  //!
}
// pending copy wait_leaves_one_group_too_many [1, 32]
K(wait_leaves_one_group_too_many) {
  __shared__ __align__(16) int s[64];
  for (int i = 0; i < 2; ++i) {
    croq_async_copy<4>(s + 32 * i + threadIdx.x, a + threadIdx.x);  //!
    croq_async_commit();
  }
  croq_async_wait<1>();
  b[threadIdx.x] = s[32 + threadIdx.x];  //!
}
// pending copy wait_without_commit [1, 32]
K(wait_without_commit) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  croq_async_wait<0>();
  b[threadIdx.x] = s[threadIdx.x];  //!
}
// pending copy slot_written_while_a_copy_is_under_way [1, 32]
K(slot_written_while_a_copy_is_under_way) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  croq_async_commit();
  s[threadIdx.x] = 0;  //!
  croq_async_wait<0>();
  b[threadIdx.x] = s[threadIdx.x];
}
// pending copy source_written_behind_a_barrier [1, 32]
K(source_written_behind_a_barrier) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  croq_async_commit();
  __syncthreads();
  a[31 - threadIdx.x] = 1;  //!
  croq_async_wait<0>();
  __syncthreads();
  b[threadIdx.x] = s[31 - threadIdx.x];
}
// pending copy own_source_is_written [1, 32]
K(own_source_is_written) {
  __shared__ __align__(16) int s[32];
  croq_async_copy_zfill<4>(s + threadIdx.x, a + threadIdx.x, 4);  //!
  croq_async_commit();
  a[threadIdx.x] = 1;  //!
  croq_async_wait<0>();
  b[threadIdx.x] = s[threadIdx.x];
}
// pending copy source_counts_by_atomics [1, 32]
K(source_counts_by_atomics) {
  __shared__ __align__(16) int s[128];
  croq_async_copy<16>(s + 4 * threadIdx.x, a + 4 * threadIdx.x);  //!
  __syncthreads();
  atomicAdd(a + 127 - threadIdx.x, 1);  //!
  croq_async_wait_all();
}
// pending copy source_written_without_a_barrier_after_the_wait [1, 32]
K(source_written_without_a_barrier_after_the_wait) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  __syncthreads();
  croq_async_wait_all();
  a[31 - threadIdx.x] = s[threadIdx.x];  //!
}
// pending copy source_of_the_newest_group [1, 32]
K(source_of_the_newest_group) {
  __shared__ __align__(16) int s[2][32];
  croq_async_copy<4>(&s[0][threadIdx.x], a + threadIdx.x);
  croq_async_commit();
  croq_async_copy<4>(&s[1][threadIdx.x], a + 32 + threadIdx.x);  //!
  croq_async_commit();
  croq_async_wait<1>();
  a[threadIdx.x] = 1;
  a[32 + threadIdx.x] = 1;  //!
}
// pending copy bytes_are_written_at_a_copys_source [1, 32]
K(bytes_are_written_at_a_copys_source) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<4>(s + threadIdx.x, a + threadIdx.x);  //!
  ((char*)a)[4 * threadIdx.x + 3] = 1;  //!
  croq_async_wait_all();
}
// race memory_is_set_without_a_barrier [1, 64]
K(memory_is_set_without_a_barrier) {
  __shared__ int s[64];
  memset(s + threadIdx.x, 1, n / n * 4);  //!
  b[threadIdx.x] = s[63 - threadIdx.x];  //!
}
// race memory_is_copied_without_a_barrier [1, 64]
K(memory_is_copied_without_a_barrier) {
  __shared__ int s[64];
  s[threadIdx.x] = a[threadIdx.x];  //!
  memcpy(b + threadIdx.x, s + 63 - threadIdx.x, 4);  //!
}
// outside memory_is_copied_from_behind_the_end [1, 32]
K(memory_is_copied_from_behind_the_end) {
  __shared__ int s[32];
  memset(s + threadIdx.x, 0, sizeof s[0]);
  __syncthreads();
  if (threadIdx.x == 0) memcpy(b, s + 1, 32 * 4);  //!
}
// uninitialised nobody_writes [1, 32]
K(nobody_writes) {
  __shared__ int s[64];
  if (n == 0) s[threadIdx.x] = 1;
  b[threadIdx.x] = s[threadIdx.x];  //!
}
// uninitialised halo_is_not_filled [1, 32]
K(halo_is_not_filled) {
  __shared__ int s[34];
  s[threadIdx.x + 1] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 1];  //!
}
// uninitialised histogram_is_not_cleared [1, 32]
K(histogram_is_not_cleared) {
  __shared__ int bins[8];
  atomicAdd(&bins[threadIdx.x % 8], 1);  //!
  __syncthreads();
  if (threadIdx.x < 8) b[threadIdx.x] = bins[threadIdx.x];
}
// uninitialised memory_of_the_block_before [2, 32]
K(memory_of_the_block_before) {
  __shared__ int s[32];
  if (blockIdx.x == 0) s[threadIdx.x] = 1;
  __syncthreads();
  b[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];  //!
}
// outside one_behind_the_end [1, 32]
K(one_behind_the_end) { b[threadIdx.x] = a[992 + threadIdx.x + 1]; }  //!
// outside one_before_the_begin [1, 32]
K(one_before_the_begin) {
  b[threadIdx.x] = a[(int)threadIdx.x - 1];  //!
}
// outside wrong_stride [2, 32]
K(wrong_stride) {
  b[threadIdx.x * n * n + blockIdx.x] = 1;  //!
}
// outside very_wrong_stride [1, 32]
K(very_wrong_stride) {
  b[threadIdx.x] = a[threadIdx.x * (n << 16)];  //!
}
// outside rows_as_if_of_bytes [1, 32]
K(rows_as_if_of_bytes) {
  b[threadIdx.x] = a[(long long)threadIdx.x * 1024 * 1024];  //!
}
// outside one_shared_array_to_the_next [1, 32]
K(one_shared_array_to_the_next) {
  __shared__ int first[32], second[32];
  first[threadIdx.x] = second[threadIdx.x] = 1;
  __syncthreads();
  put(n ? first : second, threadIdx.x + 1, 2);  //= put
  put(n ? second : first, threadIdx.x - 1, 2);  //= put
}
// outside shared_array_by_a_row [1, 32]
K(shared_array_by_a_row) {
  __shared__ int first[64], second[64], third[64];
  first[threadIdx.x] = first[threadIdx.x + 32] = second[threadIdx.x] = second[threadIdx.x + 32] = 1;
  third[threadIdx.x] = third[threadIdx.x + 32] = 3;
  __syncthreads();
  b[threadIdx.x] = get(second, threadIdx.x + n) + get(first, threadIdx.x) + get(third, threadIdx.x);  //= get
}
// outside column_beyond_a_row [1, 8]
K(column_beyond_a_row) {
  __shared__ int s[4][8];
  for (int i = 0; i < 4; ++i) s[i][threadIdx.x] = i;
  __syncthreads();
  b[threadIdx.x] = s[n / 64][threadIdx.x + n / 64];  //!
}
// outside dynamic_memory [1, 32] shared=124
K(dynamic_memory) {
  extern __shared__ int s1[];
  s1[threadIdx.x] = 1;  //!
}
// outside own_array [1, 4]
K(own_array) {
  int own[8];
  for (int i = 0; i <= n / 8; ++i) own[i] = i;  //!
  b[threadIdx.x] = own[threadIdx.x];
}
// outside own_array_before [1, 4]
K(own_array_before) {
  int own[8] = {};
  own[(int)threadIdx.x - 1] = 1;  //!
  b[threadIdx.x] = own[n % 7];
}
// outside wild [1, 4]
K(wild) { *(int*)(long long)(n * 0x123456789ll) = 1; }  //!
// outside null [1, 4]
K(null) {
  int* p = (int*)(long long)(n - 64);
  p[threadIdx.x] = 1;  //!
}
// outside local_of_another_thread [1, 2]
K(local_of_another_thread) {
  __shared__ int* where;
  int own[4] = {1, 2, 3, 4};
  if (threadIdx.x == 0) where = own + n % 3;
  __syncthreads();
  if (threadIdx.x == 1) b[0] = where[0];  //!
  __syncthreads();
  b[1] = own[n % 4];
}
// alignment wide_load [1, 4]
K(wide_load) {
  int4 v = *(const int4*)(a + threadIdx.x * 4 + n / 64);  //!
  b[threadIdx.x] = v.x;
}
// alignment wide_store_to_a_known_place [1, 4]
K(wide_store_to_a_known_place) {
  __shared__ __align__(16) int s[32];
  *(int4*)(s + 1) = make_int4(1, 2, 3, n);  //!
}
// alignment wide_load_from_a_known_place [1, 4]
K(wide_load_from_a_known_place) {
  __shared__ __align__(16) int s[32];
  s[1] = s[2] = 1;
  b[threadIdx.x] = *(long long*)(s + 1);  //!
}
// alignment doubles_in_bytes [1, 1]
K(doubles_in_bytes) {
  __shared__ __align__(8) unsigned char s[32];
  *(double*)(s + 4) = n;  //!
}
// alignment copy_of_sixteen_bytes [1, 1]
K(copy_of_sixteen_bytes) {
  __shared__ __align__(16) int s[32];
  croq_async_copy<16>(s + n / 64, a);  //!
}
// divergent barrier branches_with_a_barrier_each [1, 64]
K(branches_with_a_barrier_each) {
  if (threadIdx.x < 32)
    __syncthreads();  //!
  else
    __syncthreads();  //!
}
// divergent barrier some_return_before [1, 64]
K(some_return_before) {
  if (threadIdx.x > 40) return;
  __syncthreads();  //!
}
// divergent barrier turns_differ [1, 64]
K(turns_differ) {
  for (int i = 0; i < (threadIdx.x < 32 ? 2 : 3); ++i)
    __syncthreads();  //!
}
// deadlock named_barrier_that_nobody_else_comes_to [1, 64]
K(named_barrier_that_nobody_else_comes_to) {
  if (threadIdx.x < 32)
    croq_bar_sync(1, 64);  //!
}
// barrier named_barrier_of_two_counts [1, 96]
K(named_barrier_of_two_counts) {
  if (threadIdx.x < 64)
    croq_bar_sync(1, 96);  //!
  else
    croq_bar_sync(1, 64);  //!
}
// barrier named_barrier_of_a_part_of_a_warp [1, 64]
K(named_barrier_of_a_part_of_a_warp) {
  if (threadIdx.x < 48)
    croq_bar_sync(1, 48);  //!
}
// barrier barrier_sixteen [1, 64]
K(barrier_sixteen) {
  croq_bar_sync(n / 4, 64);  //!
}
// deadlock mbarrier_without_arrival [1, 32]
K(mbarrier_without_arrival) {
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) croq_mbarrier_init(&full, 32);
  __syncthreads();
  if (threadIdx.x != 5) croq_mbarrier_arrive(&full);
  croq_mbarrier_wait(&full, 0);  //!
}
// barrier mbarrier_with_too_many_arrivals [1, 32]
K(mbarrier_with_too_many_arrivals) {
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) croq_mbarrier_init(&full, n * 0);  //!
  __syncthreads();
  croq_mbarrier_arrive(&full);
}
// barrier mbarrier_that_is_not_initialised [1, 32]
K(mbarrier_that_is_not_initialised) {
  __shared__ unsigned long long full;
  croq_mbarrier_arrive(&full);  //!
}
// deadlock grid_barrier_that_a_block_leaves_out [3, 32] cooperative
K(grid_barrier_that_a_block_leaves_out) {
  if (blockIdx.x != 1)
    croq_grid_sync((unsigned*)b, gridDim.x);  //!
  else
    while (atomicAdd(b + 8, 0) == 0) {}  //!
}
// deadlock two_locks_in_two_orders [2, 1] cooperative seed=3
K(two_locks_in_two_orders) {
  const int mine = blockIdx.x;
  while (atomicCAS(b + mine, 0, 1)) {}
  atomicAdd(b + 2, 1);
  while (atomicAdd(b + 2, 0) < 2) {}
  while (atomicCAS(b + (mine ^ 1), 0, 1)) {}  //!
}
// deadlock shuffle_in_a_branch [1, 32]
K(shuffle_in_a_branch) {
  if (threadIdx.x < 16)
    b[threadIdx.x] = __shfl_xor_sync(0xffffffffu, n, 1);  //!
  else
    __syncthreads();  //!
}
// warp lane_beside_its_mask [1, 32]
K(lane_beside_its_mask) {
  b[threadIdx.x] = __shfl_sync(0xffu, n, 0);  //!
}
// warp operations_differ [1, 32]
K(operations_differ) {
  if (threadIdx.x & 1)
    b[threadIdx.x] = __shfl_sync(~0u, n, 0);  //!
  else
    b[threadIdx.x] = __ballot_sync(~0u, n);  //!
}
// warp lane_that_has_ended [1, 32]
K(lane_that_has_ended) {
  if (threadIdx.x >= 16) return;
  b[threadIdx.x] = __shfl_down_sync(~0u, n, 8);  //!
}
// warp reduction_of_a_part_of_a_warp [1, 40]
K(reduction_of_a_part_of_a_warp) {
  int v = threadIdx.x;
  for (int d = 16; d; d /= 2)
    v += __shfl_down_sync(~0u, v, d);  //!
  b[threadIdx.x] = v;
}
// trap stopped_by_abort [1, 4]
K(stopped_by_abort) {
  if (threadIdx.x == 2)
    abort();  //!
}
// trap stopped_by_assert [1, 4]
K(stopped_by_assert) {
  assert(a[threadIdx.x] != 3);  //!
}
// trap stopped_by_trap [1, 4]
K(stopped_by_trap) {
  if (threadIdx.x == 2) __trap();  //!
}
// fault stopped_by_the_compilers_trap [1, 4]
K(stopped_by_the_compilers_trap) {
  if (threadIdx.x == 2) __builtin_trap();  //!
}
// fault divided_by_zero [1, 4]
K(divided_by_zero) {
  b[0] = n / a[threadIdx.x];  //!
}
static __device__ __noinline__ int deep(int i, volatile int* p) {
  volatile int room[64];  //? deep
  room[i & 63] = p[0];  //? deep
  return i == -1 ? 1 : deep(i + 1, room) + room[1];  //? deep
}
// fault called_too_deep [1, 2]
K(called_too_deep) { b[0] = deep(n, (volatile int*)a); }  //= deep

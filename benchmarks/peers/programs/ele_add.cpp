// What somebody would write without the language: the element-wise sum with threads, host and check in one file.
#include <algorithm>
#include <iostream>
#include <thread>
#include <vector>

static void add(const int* a, const int* b, int* c, int planes, int size) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([=] {
      for (int p = t; p < planes; p += 2)
        for (int i = p * size; i < (p + 1) * size; ++i) c[i] = a[i] + b[i];
    });
  for (auto& thread : threads) thread.join();
}

int main() {
  static int a[6][17][128], b[6][17][128], c[6][17][128];
  std::fill_n(&a[0][0][0], sizeof(a) / sizeof(int), 1);
  std::fill_n(&b[0][0][0], sizeof(b) / sizeof(int), 2);
  add(&a[0][0][0], &b[0][0][0], &c[0][0][0], 6, 17 * 128);
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 17; ++j)
      for (int k = 0; k < 128; ++k)
        if (a[i][j][k] + b[i][j][k] != c[i][j][k]) {
          std::cerr << "result does not match.\n";
          return 1;
        }
  std::cout << "Test Passed\n" << std::endl;
}

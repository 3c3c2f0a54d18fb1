// What somebody would write without the language: a matrix product with threads, host and check in one file.
#include <iostream>
#include <random>
#include <thread>
#include <vector>

constexpr int M = 128, N = 256, K = 256;

static void multiply(const int* a, const int* b, int* c) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([=] {
      for (int i = t; i < M; i += 2)
        for (int k = 0; k < K; ++k)
          for (int j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    });
  for (auto& thread : threads) thread.join();
}

int main() {
  std::vector<int> a(M * K), b(K * N), c(M * N, 0);
  std::mt19937 random(7);
  for (int& each : a) each = (int)(random() % 21) - 10;
  for (int& each : b) each = (int)(random() % 21) - 10;
  multiply(a.data(), b.data(), c.data());
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      int sum = 0;
      for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      if (sum != c[i * N + j]) {
        std::cerr << "result does not match.\n";
        return 1;
      }
    }
  std::cout << "Test Passed" << std::endl;
}

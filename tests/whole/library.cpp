// Every name of the host library, with values worked out by hand. Ends with 0 if all of them are right.
#include "choreo.h"

static int failures;
#define SAME(a, b) \
  if (!((a) == (b))) ++failures, std::cerr << __LINE__ << ": " #a " is not " #b "\n"

template <typename T>
void random_between(double low, double high, bool whole) {
  auto x = croq::make_spandata<T>(4000);
  x.fill_random(T(low), T(high));
  double least = high, most = low, sum = 0;
  for (auto& each : x) {
    const double value = (double)each;
    least = std::min(least, value), most = std::max(most, value), sum += value;
  }
  SAME(least >= low, true);
  SAME(whole ? most == high && least == low : most < high && most > high - (high - low) / 4, true);
  SAME(std::fabs(sum / 4000 - (low + high) / 2) < (high - low) / 12, true);
}

int main() {
  // views
  int flat[24], square[2][3] = {{1, 2, 3}, {4, 5, 6}}, line[3] = {7, 8, 9};
  for (int i = 0; i < 24; ++i) flat[i] = i;
  auto view = choreo::make_spanview<3>(flat, {2, 3, 4});
  SAME(view[1][2][3], 23);
  SAME(view[1].shape()[0], 3u);
  SAME(&view[1][0][0], flat + 12);
  view[0][1][2] = 100;
  SAME(flat[6], 100);
  choreo::spanned_view<int, 2> part = view[1];
  SAME(part[2][0], 20);
  SAME(view.rank(), 3u);
  SAME(view.element_count(), 24u);
  SAME(view.bytes(), 96u);
  SAME(view.data(), flat);
  SAME(choreo::make_spanview(square)[1][2], 6);
  SAME(choreo::make_spanview(line)[2], 9);
  const int* constant = flat;
  SAME(choreo::make_spanview<2>(constant, {4, 6})[3][5], 23);
  SAME((choreo::make_spanview<choreo::s32, 2>((void*)flat, {4, 6})[3][5]), 23);
  SAME((choreo::make_spanview<choreo::s32, 2>((const void*)flat, {4, 6})[0][1]), 1);
  SAME(croq::make_spanned<2>(flat, {4, 6})[1][0], 100);
  SAME(view == choreo::make_spanview<3>(flat, {2, 3, 4}), true);
  SAME(choreo::make_spanview<2>(flat, {4, 6}) == choreo::make_spanview<2>(flat, {6, 4}), false);

  // arrays
  auto data = choreo::make_spandata<choreo::f32>(3, 5);
  data.fill(2.5f);
  data[2][4] = -1;
  SAME(data[2][3] + data[2][4], 1.5f);
  SAME(data.shape()[0] * 10 + data.shape()[1], 35u);
  auto moved = std::move(data);
  SAME(moved[2][4], -1.0f);
  const auto& fixed = moved;
  SAME(fixed[0][0], 2.5f);
  auto copy = choreo::copy_as_spanned<2>(moved.data(), {3, 5});
  SAME(copy == moved, true);
  SAME(copy == moved.view(), true);
  copy[0][1] = 0;
  SAME(copy != moved, true);
  SAME((choreo::make_spandata<choreo::u8, 2>({7, 2}).bytes()), 14u);
  SAME(choreo::make_spandata<choreo::f64>(1).bytes(), 8u);
  SAME(std::is_copy_constructible<decltype(copy)>::value, false);
  SAME((uintptr_t)copy.data() % 64, 0u);

  // shapes
  choreo::mdspan<3> shape{4, 5, 6};
  SAME(shape.size(), 3u);
  SAME(shape.element_count(), 120u);
  SAME(shape == view.shape(), false);
  SAME(shape != (choreo::mdspan<2>{4, 5}), true);
  std::cout << shape << " " << choreo::f16(1.5f) << " " << choreo::bf16(2.5f) << " " << choreo::f8_e5m2(0.5f) << "\n";

  // random contents
  random_between<choreo::s32>(-3, 4, true);
  random_between<choreo::u8>(250, 255, true);
  random_between<choreo::s8>(-128, 127, true);
  random_between<choreo::s64>(-2, 2, true);
  random_between<choreo::s4>(-8, 7, true);
  random_between<choreo::f32>(-1, 1, false);
  random_between<choreo::f64>(0, 3, false);
  random_between<choreo::f16>(0, 1, false);
  random_between<choreo::bf16>(1, 2, false);
  auto small = choreo::make_spandata<choreo::f8_e4m3>(2, 50);
  small.fill_fp8(1.75f);
  SAME((float)small[1][49], 1.75f);
  small.fill_random_fp8(-2, 2);
  for (auto& each : small) SAME((float)each >= -2 && (float)each < 2, true);
  auto bytes = choreo::make_spandata<choreo::u8>(3);
  bytes.fill_fp8(1.0f);
  SAME((int)bytes[2], 0x38);
  auto whole = choreo::make_spandata<choreo::u64>(2);
  whole.fill_random(0, ~0ull);
  SAME(whole[0] != whole[1], true);

  // conversions
  SAME(choreo::f16_to_f32(choreo::f32_to_f16(1.0f / 3)), 0.333251953125f);
  SAME(choreo::bf16_to_f32(choreo::f32_to_bf16(1.0f / 3)), 0.333984375f);
  SAME((float)choreo::f8_e5m2(1e9f) > 57344.0f, true);
  SAME((int)choreo::s4(9), -7);

  // checks that hold
  choreo::choreo_assert(true, "no");
  choreo::choreo_assert(true, std::string("no"));
  choreo::croq_assert(true);
  croq::croq_assert(true, "no");
  ::croq_assert(true, "no");
  choreo::runtime_check(true, "no");
  return failures != 0;
}

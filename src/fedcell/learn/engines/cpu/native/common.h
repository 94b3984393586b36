// Vectors of L numbers, as compilers know them for any processor.
#pragma once
#include <cmath>
#include <cstring>

#if defined(__AVX512F__)
const int WIDEST = 16, ACCUMULATORS = 24;
#elif defined(__AVX__)
const int WIDEST = 8, ACCUMULATORS = 12;
#else
const int WIDEST = 4, ACCUMULATORS = 24;
#endif
const int MOST_TAPS = 128;

template <int L>
struct Vec {
    typedef float type __attribute__((vector_size(4 * L)));
};

template <int L>
static inline typename Vec<L>::type load(const float *from) {
    typename Vec<L>::type found;
    std::memcpy(&found, from, sizeof found);
    return found;
}

template <int L>
static inline void store(float *to, typename Vec<L>::type value) {
    std::memcpy(to, &value, sizeof value);
}

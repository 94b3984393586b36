// Vectors of L numbers, as compilers know them for any processor.
#pragma once
#include <cmath>
#include <cstring>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
const int WIDEST = 16, ACCUMULATORS = 24;
#elif defined(__AVX__)
const int WIDEST = 8, ACCUMULATORS = 12;
#else
const int WIDEST = 4, ACCUMULATORS = 24;
#endif
const int MOST_TAPS = 128, MOST_CHANNELS = 4096;

template <int L>
struct Vec {
    typedef float type __attribute__((vector_size(4 * L)));
};

typedef Vec<WIDEST>::type wide;

// Before loops over arrays of vectors that are to lie in registers.
#define UNROLLED _Pragma("GCC unroll 24")

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

// The first n numbers of a vector, the others zero; and back.
template <int L>
static inline typename Vec<L>::type load_some(const float *from, long n) {
#ifdef __AVX512F__
    if (L == 16) {
        typename Vec<L>::type found;
        __m512 some = _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
        std::memcpy(&found, &some, sizeof found);
        return found;
    }
#endif
    typename Vec<L>::type found = {};
    for (long k = 0; k < n; k++) found[k] = from[k];
    return found;
}

template <int L>
static inline void store_some(float *to, typename Vec<L>::type value, long n) {
#ifdef __AVX512F__
    if (L == 16) {
        __m512 some;
        std::memcpy(&some, &value, sizeof some);
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), some);
        return;
    }
#endif
    for (long k = 0; k < n; k++) to[k] = value[k];
}

// The first numbers of a vector, up to n of them: the others are read as zero, and not written.
struct Some {
#ifdef __AVX512F__
    __mmask16 mask;

    explicit Some(long n = WIDEST) : mask(n < WIDEST ? (1u << n) - 1 : 0xffff) {}

    wide load(const float *from) const { return (wide)_mm512_maskz_loadu_ps(mask, from); }

    void store(float *to, wide value) const {
        if (mask == 0xffff) ::store<WIDEST>(to, value);
        else if (mask == 0xff) _mm256_storeu_ps(to, _mm512_castps512_ps256((__m512)value));  // far quicker than a mask
        else _mm512_mask_storeu_ps(to, mask, (__m512)value);
    }
#else
    long n;

    explicit Some(long n = WIDEST) : n(n) {}

    wide load(const float *from) const { return n < WIDEST ? load_some<WIDEST>(from, n) : ::load<WIDEST>(from); }

    void store(float *to, wide value) const {
        if (n < WIDEST) store_some<WIDEST>(to, value, n);
        else ::store<WIDEST>(to, value);
    }
#endif
};

// So many numbers as fill vectors.
static inline long filled(long n) { return (n + WIDEST - 1) / WIDEST * WIDEST; }

// Does something for n channels, a vector of them at a time: work(the first of them, which of the vector there are).
template <class Work>
static inline void over_channels(long n, Work work) {
    long c = 0;
    for (; c + WIDEST <= n; c += WIDEST) work(c, Some());
    if (c < n) work(c, Some(n - c));
}

// The sum of the numbers of a vector.
static inline float total(wide v) {
#ifdef __AVX512F__
    __m512 all;
    std::memcpy(&all, &v, sizeof all);
    return _mm512_reduce_add_ps(all);
#endif
    float sum = 0;
    for (int k = 0; k < WIDEST; k++) sum += v[k];
    return sum;
}

// The largest of them.
static inline float highest(wide v) {
#ifdef __AVX512F__
    __m512 all;
    std::memcpy(&all, &v, sizeof all);
    return _mm512_reduce_max_ps(all);
#endif
    float most = v[0];
    for (int k = 1; k < WIDEST; k++) most = v[k] > most ? v[k] : most;
    return most;
}

typedef const long *Numbers;
typedef float *const *Pointers;

struct Call {
    void (*kernel)(Numbers, Pointers);
    Numbers numbers;
    Pointers pointers;
};

// Whether a kernel of this list met an index outside the table that it reads; it then leaves the entry out.
static thread_local int out_of_range;

extern "C" int run(const Call *calls, long n) {
    out_of_range = 0;
    for (long place = 0; place < n; place++) calls[place].kernel(calls[place].numbers, calls[place].pointers);
    return out_of_range;
}

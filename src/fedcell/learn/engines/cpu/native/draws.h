// Dropout's random numbers, as PyTorch draws them: the Mersenne Twister, whose numbers are made 624 at a time.
//
// Reference: Matsumoto, Nishimura, Mersenne Twister, ACM TOMACS 8(1), 1998.
#pragma once
#include <cstdint>

const int WORDS = 624, AHEAD = 397;

struct Twister {  // as Python keeps it
    uint32_t state[WORDS], ready[WORDS];
    uint32_t used;

    void seed(uint32_t value) {
        state[0] = value;
        for (uint32_t k = 1; k < WORDS; k++) state[k] = 1812433253u * (state[k - 1] ^ state[k - 1] >> 30) + k;
        used = WORDS;
    }

    void twist(int first, int last, int ahead) {  // words that are `ahead` have other values by then, or not yet: never both
#pragma GCC ivdep
        for (int k = first; k < last; k++) {
            const uint32_t both = (state[k] & 0x80000000u) | (state[k + 1] & 0x7fffffffu);
            state[k] = state[k + ahead] ^ both >> 1 ^ (-(both & 1u) & 0x9908b0dfu);
        }
    }

    void refill() {
        twist(0, WORDS - AHEAD, AHEAD);
        twist(WORDS - AHEAD, WORDS - 1, AHEAD - WORDS);
        const uint32_t both = (state[WORDS - 1] & 0x80000000u) | (state[0] & 0x7fffffffu);
        state[WORDS - 1] = state[AHEAD - 1] ^ both >> 1 ^ (-(both & 1u) & 0x9908b0dfu);
        for (int k = 0; k < WORDS; k++) {
            uint32_t y = state[k];
            y ^= y >> 11;
            y ^= y << 7 & 0x9d2c5680u;
            y ^= y << 15 & 0xefc60000u;
            ready[k] = y ^ y >> 18;
        }
        used = 0;
    }
};

// Entries that are `value` with a probability of `below / 2^53`, else 0; each takes 53 bits of two numbers.
static void kept_or_dropped(Twister &twister, long n, long below, float value, float *to) {
    const uint32_t high = below >> 32, low = (uint32_t)below, bits = 0x1fffff;
    for (long k = 0; k < n;) {
        if (twister.used == WORDS) twister.refill();
        const uint32_t *drawn = twister.ready + twister.used;
        const long some = n - k < (WORDS - twister.used) / 2 ? n - k : (WORDS - twister.used) / 2;
        for (long e = 0; e < some; e++) {
            const uint32_t first = drawn[2 * e] & bits, second = drawn[2 * e + 1];
            to[k + e] = first < high || (first == high && second < low) ? value : 0.0f;
        }
        k += some, twister.used += 2 * some;
    }
}

// Max-pools of channels-last images, with the place of every maximum: the number of its pixel in the image.
#pragma once
#include "common.h"

struct Pool {
    long n, height, width, channels, high, wide, down, right, pad_h, pad_w, out_height, out_width;
};

// Calls work(output pixel, its first and last row and column of the image), image by image.
template <class Work>
static void windows(const Pool &s, long image, Work work) {
    for (long h = 0, out = image * s.out_height * s.out_width; h < s.out_height; h++)
        for (long w = 0; w < s.out_width; w++, out++) {
            const long top = h * s.down - s.pad_h, left = w * s.right - s.pad_w;
            const long low = top + s.high < s.height ? top + s.high : s.height, far = left + s.wide < s.width ? left + s.wide : s.width;
            work(out, top > 0 ? top : 0, low, left > 0 ? left : 0, far);
        }
}

// Of equals the first counts, and what is not a number is largest.
template <int L>
static void pool_forward(const Pool &s, const float *x, float *y, long *places) {
    typedef typename Vec<L>::type vec;
    typedef decltype(vec{} > vec{}) whole;
    typedef long place __attribute__((vector_size(8 * L)));
    for (long n = 0; n < s.n; n++, x += s.height * s.width * s.channels)
        windows(s, n, [&](long out, long top, long low, long left, long far) {
            for (long c = 0; c < s.channels; c += L) {
                const long first = top * s.width + left;
                vec best = load<L>(x + first * s.channels + c);
                whole at = whole{} + (int)first;
                for (long h = top; h < low; h++)
                    for (long w = left; w < far; w++) {
                        vec one = load<L>(x + (h * s.width + w) * s.channels + c);
                        whole take = (one > best) | (one != one);
                        best = take ? one : best, at = take ? whole{} + (int)(h * s.width + w) : at;
                    }
                store<L>(y + out * s.channels + c, best);
                place found = __builtin_convertvector(at, place);
                std::memcpy(places + out * s.channels + c, &found, sizeof found);
            }
        });
}

template <int L>
static void pool_backward(const Pool &s, const float *sent, const long *places, float *found) {
    typedef typename Vec<L>::type vec;
    typedef decltype(vec{} > vec{}) whole;
    typedef long place __attribute__((vector_size(8 * L)));
    const long size = s.height * s.width * s.channels;
    for (long n = 0; n < s.n; n++, found += size) {
        std::memset(found, 0, 4 * size);
        windows(s, n, [&](long out, long top, long low, long left, long far) {
            for (long c = 0; c < s.channels; c += L) {
                place there;
                std::memcpy(&there, places + out * s.channels + c, sizeof there);
                const whole at = __builtin_convertvector(there, whole);
                const vec one = load<L>(sent + out * s.channels + c);
                for (long h = top; h < low; h++)
                    for (long w = left; w < far; w++) {
                        float *to = found + (h * s.width + w) * s.channels + c;
                        store<L>(to, load<L>(to) + (at == (int)(h * s.width + w) ? one : vec{}));
                    }
            }
        });
    }
}

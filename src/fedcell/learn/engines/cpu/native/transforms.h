// What Winograd's algorithm does along one axis of a tile: N = M + R - 1 pixels under M outputs, for a kernel of R.
//
// With N = 4 the points are 0, 1, -1 and infinity. With N = 6 they are 0, 3/4, -3/4, 3/2, -3/2 and infinity: all numbers
// below are exact in float32, and sums lose a third of the digits that they lose at 0, 1, -1, 2, -2 and infinity.
//
// Reference: Barabasz, Anderson, Soodhalter, Gregg, Error Analysis and Improving the Accuracy of Winograd Convolution, 2020.
#pragma once

const float NEAR_1 = 0.75f, NEAR_2 = 0.5625f, NEAR_3 = 0.421875f;  // powers of a point
const float FAR_1 = 1.5f, FAR_2 = 2.25f, FAR_3 = 3.375f;
const float BOTH = NEAR_2 + FAR_2, JOINT = NEAR_2 * FAR_2;
const float BY_ZERO = 1 / JOINT, BY_NEAR = 1 / (2 * NEAR_2 * (NEAR_2 - FAR_2)), BY_FAR = 1 / (2 * FAR_2 * (FAR_2 - NEAR_2));

// B': from pixels
template <class vec>
static inline void into(const vec (&d)[4], vec (&t)[4]) {
    t[0] = d[0] - d[2], t[1] = d[1] + d[2], t[2] = d[2] - d[1], t[3] = d[1] - d[3];
}

template <class vec>
static inline void into(const vec (&d)[6], vec (&t)[6]) {
    vec a = d[4] - FAR_2 * d[2], b = NEAR_1 * (d[3] - FAR_2 * d[1]), c = d[4] - NEAR_2 * d[2], e = FAR_1 * (d[3] - NEAR_2 * d[1]);
    t[0] = JOINT * d[0] - BOTH * d[2] + d[4], t[1] = a + b, t[2] = a - b, t[3] = c + e, t[4] = c - e;
    t[5] = JOINT * d[1] - BOTH * d[3] + d[5];
}

// A': to outputs
template <class vec>
static inline void out_of(const vec (&t)[4], vec (&y)[2]) {
    y[0] = t[0] + t[1] + t[2], y[1] = t[1] - t[2] - t[3];
}

template <class vec>
static inline void out_of(const vec (&t)[6], vec (&y)[2]) {
    y[0] = t[0] + (t[1] + t[2]) + (t[3] + t[4]), y[1] = NEAR_1 * (t[1] - t[2]) + FAR_1 * (t[3] - t[4]) + t[5];
}

template <class vec>
static inline void out_of(const vec (&t)[6], vec (&y)[4]) {
    vec even = t[1] + t[2], odd = t[1] - t[2], far = t[3] + t[4], wide = t[3] - t[4];
    y[0] = t[0] + even + far, y[1] = NEAR_1 * odd + FAR_1 * wide;
    y[2] = NEAR_2 * even + FAR_2 * far, y[3] = NEAR_3 * odd + FAR_3 * wide + t[5];
}

// A: from what is sent back to outputs
template <class vec>
static inline void back_from(const vec (&y)[2], vec (&t)[4]) {
    t[0] = y[0], t[1] = y[0] + y[1], t[2] = y[0] - y[1], t[3] = -y[1];
}

template <class vec>
static inline void back_from(const vec (&y)[2], vec (&t)[6]) {
    vec b = NEAR_1 * y[1], e = FAR_1 * y[1];
    t[0] = y[0], t[1] = y[0] + b, t[2] = y[0] - b, t[3] = y[0] + e, t[4] = y[0] - e, t[5] = y[1];
}

template <class vec>
static inline void back_from(const vec (&y)[4], vec (&t)[6]) {
    vec a = y[0] + NEAR_2 * y[2], b = NEAR_1 * y[1] + NEAR_3 * y[3], c = y[0] + FAR_2 * y[2], e = FAR_1 * y[1] + FAR_3 * y[3];
    t[0] = y[0], t[1] = a + b, t[2] = a - b, t[3] = c + e, t[4] = c - e, t[5] = y[3];
}

// G: from a kernel
template <class vec>
static inline void spread(const vec (&g)[3], vec (&t)[4]) {
    t[0] = g[0], t[1] = 0.5f * (g[0] + g[1] + g[2]), t[2] = 0.5f * (g[0] - g[1] + g[2]), t[3] = g[2];
}

template <class vec>
static inline void spread(const vec (&g)[3], vec (&t)[6]) {
    vec a = g[0] + NEAR_2 * g[2], b = NEAR_1 * g[1], c = g[0] + FAR_2 * g[2], e = FAR_1 * g[1];
    t[0] = BY_ZERO * g[0], t[1] = BY_NEAR * (a + b), t[2] = BY_NEAR * (a - b);
    t[3] = BY_FAR * (c + e), t[4] = BY_FAR * (c - e), t[5] = g[2];
}

template <class vec>
static inline void spread(const vec (&g)[5], vec (&t)[6]) {
    vec a = g[0] + NEAR_2 * g[2] + NEAR_2 * NEAR_2 * g[4], b = NEAR_1 * g[1] + NEAR_3 * g[3];
    vec c = g[0] + FAR_2 * g[2] + FAR_2 * FAR_2 * g[4], e = FAR_1 * g[1] + FAR_3 * g[3];
    t[0] = BY_ZERO * g[0], t[1] = BY_NEAR * (a + b), t[2] = BY_NEAR * (a - b);
    t[3] = BY_FAR * (c + e), t[4] = BY_FAR * (c - e), t[5] = g[4];
}

// G': to the gradient by a kernel
template <class vec>
static inline void gather(const vec (&t)[4], vec (&g)[3]) {
    g[0] = t[0] + 0.5f * (t[1] + t[2]), g[1] = 0.5f * (t[1] - t[2]), g[2] = 0.5f * (t[1] + t[2]) + t[3];
}

template <class vec>
static inline void gather(const vec (&t)[6], vec (&g)[3]) {
    vec even = BY_NEAR * (t[1] + t[2]), odd = BY_NEAR * (t[1] - t[2]), far = BY_FAR * (t[3] + t[4]), wide = BY_FAR * (t[3] - t[4]);
    g[0] = BY_ZERO * t[0] + even + far, g[1] = NEAR_1 * odd + FAR_1 * wide, g[2] = NEAR_2 * even + FAR_2 * far + t[5];
}

template <class vec>
static inline void gather(const vec (&t)[6], vec (&g)[5]) {
    vec even = BY_NEAR * (t[1] + t[2]), odd = BY_NEAR * (t[1] - t[2]), far = BY_FAR * (t[3] + t[4]), wide = BY_FAR * (t[3] - t[4]);
    g[0] = BY_ZERO * t[0] + even + far, g[1] = NEAR_1 * odd + FAR_1 * wide, g[2] = NEAR_2 * even + FAR_2 * far;
    g[3] = NEAR_3 * odd + FAR_3 * wide, g[4] = NEAR_2 * NEAR_2 * even + FAR_2 * FAR_2 * far + t[5];
}

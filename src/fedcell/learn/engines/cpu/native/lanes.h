// Convolutions, max-pools and ReLUs of WIDEST samples at a time: a vector holds one number of each of them.
//
// A block of samples is [channels, height, width, WIDEST]. Whatever the channels and kernels, vectors are full; nothing is
// copied to have borders. A tile of results, some channels of some neighbours in a row, stays in the registers.
#pragma once
#include "products.h"

const long LANES = WIDEST, TILE_CHANNELS = 4, TILE_PIXELS = ACCUMULATORS / 3, TILE_TAPS = ACCUMULATORS / TILE_CHANNELS;

struct Layer {  // a convolution as Python gives it; made: rows and columns of its output that a max-pool looks at
    long n_in, height, width, n_out, high, wide, down, right, pad_h, pad_w;
    long weight_out, weight_in, weight_h, weight_w;  // steps between neighbours of the weights
    long made_height, made_width, pool_h, pool_w, relu;
};

struct Sight {  // what results see of a block: taps go down and right (way 1) or up and left (-1)
    const float *x;
    long channels, height, width, taps_h, taps_w, way, step;  // step: columns between what neighbours see
    const float *w;
    long w_made, w_seen, w_h, w_w;  // steps between weights
};

static inline long least(long a, long b) { return a < b ? a : b; }
static inline long most(long a, long b) { return a > b ? a : b; }

// C channels of P neighbours, whose first taps are at (row, column); channels of y are `apart`, neighbours `beside`. If it is
// SIMPLE, neighbours see neighbours and nothing outside; otherwise some taps of some of them may be outside.
template <int C, int P, bool SIMPLE>
static void lane_tile(const Sight &s, const float *w, long row, long column, const float *bias, float *y, long apart,
                      long beside) {
    wide sum[C][P];
    for (int c = 0; c < C; c++)
        for (int p = 0; p < P; p++) sum[c][p] = wide{};
    const long first = most(0, s.way > 0 ? -row : row - s.height + 1), step = SIMPLE ? 1 : s.step, made = s.w_made;
    const long last = least(s.taps_h, s.way > 0 ? s.height - row : row + 1), plane = s.height * s.width * LANES, way = s.way;
    for (long h = first; h < last; h++) {
        const float *corner = s.x + ((row + h * way) * s.width + column) * LANES, *of_row = w + h * s.w_h;
        for (long i = 0; i < s.channels; i++, corner += plane, of_row += s.w_seen) {
            const float *seen = corner, *factors = of_row;
            long at = column;
            for (long v = s.taps_w; v > 0; v--, seen += way * LANES, factors += s.w_w, at += way) {
                wide factor[C];
                for (int c = 0; c < C; c++) factor[c] = factors[c * made] - wide{};
#pragma GCC unroll 8
                for (int p = 0; p < P; p++) {
                    if (!SIMPLE && (unsigned long)(at + p * step) >= (unsigned long)s.width) continue;
                    wide one = load<LANES>(seen + p * step * LANES);
                    for (int c = 0; c < C; c++) sum[c][p] += factor[c] * one;
                }
            }
        }
    }
    for (int c = 0; c < C; c++)
        for (int p = 0; p < P; p++) store<LANES>(y + c * apart + p * beside, sum[c][p] + (bias ? bias[c] : 0));
}

template <int C>
static void lane_tiles(long n, bool simple, const Sight &s, const float *w, long row, long column, const float *bias, float *y,
                       long apart, long beside) {
    switch (n) {
#define CASE(N)                                                                             \
    case N: {                                                                               \
        const int P = C * N <= ACCUMULATORS && N <= TILE_PIXELS ? N : 1;                    \
        if (simple) return lane_tile<C, P, true>(s, w, row, column, bias, y, apart, beside); \
        return lane_tile<C, P, false>(s, w, row, column, bias, y, apart, beside);            \
    }
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#undef CASE
    }
}

// Does something for parts of n that are about equally large, and have at most `each`.
template <class Work>
static void in_parts(long n, long each, Work work) {
    const long parts = (n + each - 1) / each;
    for (long part = 0; part < parts; part++) work(n * part / parts, n * (part + 1) / parts - n * part / parts);
}

// n neighbours, for all `made` channels.
static void lane_row(const Sight &s, long n, long made, long row, long column, const float *bias, float *y, long apart,
                     long beside) {
    in_parts(n, TILE_PIXELS, [&](long p, long pixels) {
        const long begin = column + p * s.step, end = begin + (pixels - 1) * s.step, reach = (s.taps_w - 1) * s.way;
        const bool simple = s.step == 1 && begin + least(0, reach) >= 0 && end + most(0, reach) < s.width;
        in_parts(made, least(TILE_CHANNELS, ACCUMULATORS / pixels), [&](long c, long channels) {
            const float *w = s.w + c * s.w_made, *b = bias ? bias + c : 0;
            float *to = y + c * apart + p * beside;
            if (channels == 1) lane_tiles<1>(pixels, simple, s, w, row, begin, b, to, apart, beside);
            else if (channels == 2) lane_tiles<2>(pixels, simple, s, w, row, begin, b, to, apart, beside);
            else if (channels == 3) lane_tiles<3>(pixels, simple, s, w, row, begin, b, to, apart, beside);
            else lane_tiles<4>(pixels, simple, s, w, row, begin, b, to, apart, beside);
        });
    });
}

static inline wide cut(wide v) { return v <= 0 ? wide{} : v; }  // what is not a number stays

// The largest of each window of a row of windows; of equals the first counts, and what is not a number is largest.
static void lane_pool(const Layer &s, const float *x, float *y, float *place) {
    typedef decltype(wide{} > wide{}) whole;
    for (long w = 0; w < s.made_width / s.pool_w; w++) {
        const float *corner = x + w * s.pool_w * LANES;
        wide best = load<LANES>(corner);
        whole at = {};
        for (int h = 0, k = 0; h < s.pool_h; h++)
            for (int v = 0; v < s.pool_w; v++, k++) {
                wide one = load<LANES>(corner + (h * s.made_width + v) * LANES);
                whole take = (one > best) | (one != one);
                best = take ? one : best, at = take ? whole{} + k : at;
            }
        store<LANES>(y + w * LANES, s.relu ? cut(best) : best);
        std::memcpy(place + w * LANES, &at, sizeof at);
    }
}

// y: [n_out, made_height / pool_h, made_width / pool_w, WIDEST], as place; room: [n_out, pool_h, made_width, WIDEST].
static void lane_forward(const Layer &s, const float *x, const float *w, const float *bias, float *y, float *place,
                         float *room) {
    const Sight sight = {x, s.n_in, s.height, s.width, s.high, s.wide, 1, s.right, w, s.weight_out, s.weight_in, s.weight_h,
                         s.weight_w};
    const long row = s.made_width * LANES, rows = s.made_height / s.pool_h, columns = s.made_width / s.pool_w;
    for (long r = 0; r < rows; r++) {
        float *to = place ? room : y + r * row;
        const long apart = (place ? s.pool_h : rows) * row;
        for (long q = 0; q < s.pool_h; q++)
            lane_row(sight, s.made_width, s.n_out, (r * s.pool_h + q) * s.down - s.pad_h, -s.pad_w, bias, to + q * row, apart,
                     LANES);
        for (long o = 0; o < s.n_out; o++)
            if (place) lane_pool(s, room + o * apart, y + (o * rows + r) * columns * LANES, place + (o * rows + r) * columns * LANES);
            else if (s.relu)
                for (long v = 0; v < row; v += LANES) store<LANES>(to + o * apart + v, cut(load<LANES>(to + o * apart + v)));
    }
}

// Back through ReLU and max-pool: from gradients by y to those by the output of the convolution; bias adds them up.
static void lane_sent(const Layer &s, const float *towards, const float *y, const float *place, float *sent, float *bias) {
    typedef decltype(wide{} > wide{}) whole;
    const long columns = s.made_width / s.pool_w, windows = s.made_height / s.pool_h * columns;
    for (long o = 0; o < s.n_out; o++) {
        wide sum = {};
        for (long r = 0, p = o * windows; p < (o + 1) * windows; r++)
            for (long c = 0; c < columns; c++, p++) {
                wide one = load<LANES>(towards + p * LANES);
                if (s.relu) one = load<LANES>(y + p * LANES) <= 0 ? wide{} : one;
                sum += one;
                float *corner = sent + ((o * s.made_height + r * s.pool_h) * s.made_width + c * s.pool_w) * LANES;
                if (!place) {
                    store<LANES>(corner, one);
                    continue;
                }
                whole at;
                std::memcpy(&at, place + p * LANES, sizeof at);
                for (int h = 0, k = 0; h < s.pool_h; h++)
                    for (int v = 0; v < s.pool_w; v++, k++)
                        store<LANES>(corner + (h * s.made_width + v) * LANES, at == k ? one : wide{});
            }
        if (bias) bias[o] += total(sum);
    }
}

static void lane_by_input(const Layer &s, const float *sent, const float *w, float *found) {
    for (long a = 0; a < s.down && a < s.height; a++)
        for (long b = 0; b < s.right && b < s.width; b++) {
            const long h = (a + s.pad_h) % s.down, v = (b + s.pad_w) % s.right;  // the first taps that saw this phase
            const Sight sight = {sent, s.n_out, s.made_height, s.made_width, most(0, (s.high - h + s.down - 1) / s.down),
                                 most(0, (s.wide - v + s.right - 1) / s.right), -1, 1, w + h * s.weight_h + v * s.weight_w,
                                 s.weight_in, s.weight_out, s.down * s.weight_h, s.right * s.weight_w};
            for (long r = a; r < s.height; r += s.down)
                lane_row(sight, (s.width - b + s.right - 1) / s.right, s.n_in, (r + s.pad_h - h) / s.down,
                         (b + s.pad_w - v) / s.right, 0, found + (r * s.width + b) * LANES, s.height * s.width * LANES,
                         s.right * LANES);
        }
}

static inline long up(long a, long b) { return a <= 0 ? 0 : (a + b - 1) / b; }  // a / b, rounded up, or 0

// What T taps of a row of the kernel saw, times what C channels send back, summed over pixels and samples.
template <int C, int T>
static void lane_outer(const Layer &s, const float *x, long tap, long h, const float *sent, float *found) {
    wide sum[C][T];
    for (int o = 0; o < C; o++)
        for (int t = 0; t < T; t++) sum[o][t] = wide{};
    const float *seen[T];
    long column[T], place[T], left = 0, right = s.width + s.pad_w, i = tap / s.wide, v = tap % s.wide;
    for (int t = 0; t < T; t++, v = v + 1 == s.wide ? i++, 0 : v + 1) {
        column[t] = v - s.pad_w, seen[t] = x + (i * s.height * s.width + column[t]) * LANES;
        place[t] = i * s.weight_in + v * s.weight_w;
        left = most(left, -column[t]), right = least(right, s.width - column[t]);
    }
    const long begin = least(up(left, s.right), s.made_width), end = most(begin, least(up(right, s.right), s.made_width));
    const long plane = s.made_height * s.made_width * LANES, last = least(up(s.height + s.pad_h - h, s.down), s.made_height);
    for (long r = up(s.pad_h - h, s.down); r < last; r++) {
        const float *back = sent + r * s.made_width * LANES;
        const long row = (r * s.down - s.pad_h + h) * s.width * LANES;
        auto pixel = [&](long c, auto inside) {
            wide one[C];
            for (int o = 0; o < C; o++) one[o] = load<LANES>(back + o * plane + c * LANES);
            for (int t = 0; t < T; t++) {
                if (!inside(t)) continue;
                wide other = load<LANES>(seen[t] + row + c * s.right * LANES);
                for (int o = 0; o < C; o++) sum[o][t] += one[o] * other;
            }
        };
        auto checked = [&](long c) {
            pixel(c, [&](int t) { return (unsigned long)(c * s.right + column[t]) < (unsigned long)s.width; });
        };
        for (long c = 0; c < begin; c++) checked(c);
        for (long c = begin; c < end; c++) pixel(c, [](int) { return true; });
        for (long c = end; c < s.made_width; c++) checked(c);
    }
    for (int t = 0; t < T; t++)
        for (int o = 0; o < C; o++) found[o * s.weight_out + place[t]] += total(sum[o][t]);
}

template <int C>
static void lane_outers(long n, const Layer &s, const float *x, long tap, long h, const float *sent, float *found) {
    switch (n) {
#define CASE(T) \
    case T: return lane_outer<C, T <= TILE_TAPS ? T : 1>(s, x, tap, h, sent, found);
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
    }
}

static void lane_by_weight(const Layer &s, const float *x, const float *sent, float *found) {
    for (long h = 0; h < s.high; h++)
        in_parts(s.n_out, TILE_CHANNELS, [&](long o, long channels) {
            const float *back = sent + o * s.made_height * s.made_width * LANES;
            float *into = found + o * s.weight_out + h * s.weight_h;
            in_parts(s.n_in * s.wide, TILE_TAPS, [&](long tap, long taps) {
                if (channels == 1) lane_outers<1>(taps, s, x, tap, h, back, into);
                else if (channels == 2) lane_outers<2>(taps, s, x, tap, h, back, into);
                else if (channels == 3) lane_outers<3>(taps, s, x, tap, h, back, into);
                else lane_outers<4>(taps, s, x, tap, h, back, into);
            });
        });
}

// Samples one after another, [n, outer, inner], to a block and back; there, steps along outer and inner are given. Lanes
// without a sample are zero.
struct Turn {
    long n, outer, inner, outer_step, inner_step;
};

static void lanes_in(const Turn &s, const float *rows, float *block) {
    float square[LANES * LANES], lying[LANES * LANES];
    for (long u = 0; u < s.outer; u++)
        for (long f = 0; f < s.inner; f += LANES) {
            const long some = least(LANES, s.inner - f);
            for (long r = 0; r < LANES; r++)
                store<LANES>(square + r * LANES,
                             r < s.n ? load_some<LANES>(rows + (r * s.outer + u) * s.inner + f, some) : wide{});
            turned(square, LANES, lying, LANES);
            for (long k = 0; k < some; k++)
                store<LANES>(block + u * s.outer_step + (f + k) * s.inner_step, load<LANES>(lying + k * LANES));
        }
}

static void lanes_out(const Turn &s, const float *block, float *rows) {
    float square[LANES * LANES], lying[LANES * LANES];
    for (long u = 0; u < s.outer; u++)
        for (long f = 0; f < s.inner; f += LANES) {
            const long some = least(LANES, s.inner - f);
            for (long k = 0; k < LANES; k++)
                store<LANES>(square + k * LANES,
                             k < some ? load<LANES>(block + u * s.outer_step + (f + k) * s.inner_step) : wide{});
            turned(square, LANES, lying, LANES);
            for (long r = 0; r < s.n; r++)
                store_some<LANES>(rows + (r * s.outer + u) * s.inner + f, load<LANES>(lying + r * LANES), some);
        }
}

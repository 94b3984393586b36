// Convolutions of channels-last images, in blocks of pixels and channels that stay in the registers.
//
// An image is [height, width, channels]. A block of output pixels is the sum over taps (places of the kernel) and input
// channels of one number of the image times a vector of weights. Gradients by the input are such sums, too, with other
// taps for each phase of the stride; gradients by the weights sum over pixels instead.
#pragma once
#include "common.h"

struct Tap {
    long offset;           // of the pixel that the tap sees, in numbers
    const float *weights;  // [n_in, n_out]
};

template <int L, int B, int V>
static void pixels(const float *x, long x_step, const Tap *taps, long n_taps, long n_in, long n_out, float *y, long y_step,
                   const float *bias) {
    typedef typename Vec<L>::type vec;
    vec sum[B][V];
    for (int v = 0; v < V; v++) {
        vec begin = bias ? load<L>(bias + v * L) : vec{};
        for (int b = 0; b < B; b++) sum[b][v] = begin;
    }
    const int U = V == 1 ? 4 : 2;  // input channels at a time: one address serves them all
    for (long t = 0; t < n_taps; t++) {
        const float *seen = x + taps[t].offset, *w = taps[t].weights;
        long c = 0;
        for (; c + U <= n_in; c += U, w += U * n_out) {
            vec weight[U][V];
            for (int u = 0; u < U; u++)
                for (int v = 0; v < V; v++) weight[u][v] = load<L>(w + u * n_out + v * L);
            for (int b = 0; b < B; b++)
                for (int u = 0; u < U; u++)
                    for (int v = 0; v < V; v++) sum[b][v] += seen[b * x_step + c + u] * weight[u][v];
        }
        for (; c < n_in; c++, w += n_out)
            for (int b = 0; b < B; b++)
                for (int v = 0; v < V; v++) sum[b][v] += seen[b * x_step + c] * load<L>(w + v * L);
    }
    for (int b = 0; b < B; b++)
        for (int v = 0; v < V; v++) store<L>(y + b * y_step + v * L, sum[b][v]);
}

template <int L, int V>
static void some_pixels(int n, const float *x, long x_step, const Tap *taps, long n_taps, long n_in, long n_out, float *y,
                        long y_step, const float *bias) {
    switch (n) {
#define CASE(B) \
    case B: return pixels<L, (B * V <= ACCUMULATORS ? B : 1), V>(x, x_step, taps, n_taps, n_in, n_out, y, y_step, bias);
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
    }
}

// A row of n pixels, for all output channels. Blocks are about equally long: 10 pixels are 5 and 5, not 8 and 2.
template <int L>
static void row_of_pixels(long n, const float *x, long x_step, Tap *taps, long n_taps, long n_in, long n_out, float *y,
                          long y_step, const float *bias) {
    for (long o = 0; o < n_out;) {
        long vectors = (n_out - o) / L;
        int V = vectors >= 4 && n <= ACCUMULATORS / 4 ? 4 : vectors >= 2 ? 2 : 1;
        long most = ACCUMULATORS / V < 16 ? ACCUMULATORS / V : 16, n_blocks = (n + most - 1) / most;
        for (long block = 0; block < n_blocks; block++) {
            long first = block * n / n_blocks, size = (block + 1) * n / n_blocks - first;
            const float *from = x + first * x_step, *b = bias ? bias + o : 0;
            float *to = y + first * y_step + o;
            if (V == 4) some_pixels<L, 4>(size, from, x_step, taps, n_taps, n_in, n_out, to, y_step, b);
            else if (V == 2) some_pixels<L, 2>(size, from, x_step, taps, n_taps, n_in, n_out, to, y_step, b);
            else some_pixels<L, 1>(size, from, x_step, taps, n_taps, n_in, n_out, to, y_step, b);
        }
        for (long t = 0; t < n_taps; t++) taps[t].weights += V * L;
        o += V * L;
    }
    for (long t = 0; t < n_taps; t++) taps[t].weights -= n_out;
}

// J numbers that a row of the kernel sees, times V vectors of what is sent back, summed over the pixels of an image.
template <int L, int J, int V>
static void outer(const float *x, long x_row, long x_step, const float *sent, long height, long width, long n_out,
                  float *found) {
    typedef typename Vec<L>::type vec;
    vec sum[J][V] = {};
    for (long row = 0; row < height; row++) {
        const float *seen = x + row * x_row;
        for (long place = 0; place < width; place++, seen += x_step, sent += n_out) {
            vec back[V];
            for (int v = 0; v < V; v++) back[v] = load<L>(sent + v * L);
            for (int j = 0; j < J; j++)
                for (int v = 0; v < V; v++) sum[j][v] += seen[j] * back[v];
        }
    }
    for (int j = 0; j < J; j++)
        for (int v = 0; v < V; v++) store<L>(found + j * n_out + v * L, load<L>(found + j * n_out + v * L) + sum[j][v]);
}

template <int L, int V>
static void some_outer(int n, const float *x, long x_row, long x_step, const float *sent, long height, long width,
                       long n_out, float *found) {
    switch (n) {
#define CASE(J) \
    case J: return outer<L, (J * V <= ACCUMULATORS ? J : 1), V>(x, x_row, x_step, sent, height, width, n_out, found);
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
    }
}

// The same for n numbers and all output channels.
template <int L>
static void outers(const float *x, long x_row, long x_step, const float *sent, long height, long width, long n, long n_out,
                   float *found) {
    for (long o = 0; o < n_out;) {
        int V = (n_out - o) / L >= 2 ? 2 : 1;
        long most = ACCUMULATORS / V < 16 ? ACCUMULATORS / V : 16, n_blocks = (n + most - 1) / most;
        for (long block = 0; block < n_blocks; block++) {
            long j = block * n / n_blocks, size = (block + 1) * n / n_blocks - j;
            float *into = found + j * n_out + o;
            if (V == 2) some_outer<L, 2>(size, x + j, x_row, x_step, sent + o, height, width, n_out, into);
            else some_outer<L, 1>(size, x + j, x_row, x_step, sent + o, height, width, n_out, into);
        }
        o += V * L;
    }
}

// The image with a border of zeros, which the buffer already has.
static const float *padded(const float *x, float *room, long height, long width, long channels, long top, long left,
                           long row) {
    if (!room) return x;
    for (long h = 0; h < height; h++)
        std::memcpy(room + (h + top) * row + left * channels, x + h * width * channels, 4 * width * channels);
    return room;
}

struct Shape {  // of a convolution, as Python gives it
    long n, height, width, n_in, n_out, high, wide, down, right, pad_h, pad_w, gap_h, gap_w;
    long weight_out, weight_in, weight_h, weight_w;  // steps between neighbours of the weights
    long out_height, out_width, room_height, room_width, top, left;  // room: the padded image that this kernel reads
};

template <int L>
static void forward(const Shape &s, const float *x, const float *w, const float *bias, float *y, float *packed, float *room) {
    for (long h = 0, t = 0; h < s.high; h++)
        for (long v = 0; v < s.wide; v++, t++)
            for (long i = 0; i < s.n_in; i++)
                for (long o = 0; o < s.n_out; o++)
                    packed[(t * s.n_in + i) * s.n_out + o] =
                        w[o * s.weight_out + i * s.weight_in + h * s.weight_h + v * s.weight_w];
    long row = s.room_width * s.n_in, n_taps = s.high * s.wide, together = s.n_in;
    if (s.gap_w == 1) n_taps = s.high, together *= s.wide;  // what a row of the kernel sees lies side by side
    Tap taps[MOST_TAPS];
    for (long t = 0; t < n_taps; t++) {
        long per_row = s.gap_w == 1 ? 1 : s.wide;
        taps[t] = {t / per_row * s.gap_h * row + t % per_row * s.gap_w * s.n_in, packed + t * together * s.n_out};
    }
    for (long n = 0; n < s.n; n++) {
        const float *image = padded(x + n * s.height * s.width * s.n_in, room, s.height, s.width, s.n_in, s.top, s.left, row);
        for (long h = 0; h < s.out_height; h++)
            row_of_pixels<L>(s.out_width, image + h * s.down * row, s.right * s.n_in, taps, n_taps, together, s.n_out,
                             y + (n * s.out_height + h) * s.out_width * s.n_out, s.n_out, bias);
    }
}

static long below(long a, long b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The taps that saw the pixels of a phase of the stride, as places in an image of what is sent back; returns how many.
static long phase_taps(const Shape &s, long a, long b, long row, long channels, const float *packed, long each, Tap *taps) {
    long n_taps = 0;
    for (long h = 0; h < s.high; h++)
        for (long v = 0; v < s.wide; v++) {
            long down = a + s.pad_h - h * s.gap_h, right = b + s.pad_w - v * s.gap_w;
            if (down % s.down || right % s.right) continue;
            long at = (below(down, s.down) + s.top) * row + (below(right, s.right) + s.left) * channels;
            taps[n_taps++] = {at, packed + (h * s.wide + v) * each};
        }
    return n_taps;
}

template <int L>
static void by_input(const Shape &s, const float *sent, const float *w, float *found, float *packed, float *room) {
    for (long h = 0, t = 0; h < s.high; h++)
        for (long v = 0; v < s.wide; v++, t++)
            for (long o = 0; o < s.n_out; o++)
                for (long i = 0; i < s.n_in; i++)
                    packed[(t * s.n_out + o) * s.n_in + i] =
                        w[o * s.weight_out + i * s.weight_in + h * s.weight_h + v * s.weight_w];
    long row = s.room_width * s.n_out;
    for (long n = 0; n < s.n; n++) {
        const float *image = padded(sent + n * s.out_height * s.out_width * s.n_out, room, s.out_height, s.out_width,
                                    s.n_out, s.top, s.left, row);
        for (long a = 0; a < s.down && a < s.height; a++)
            for (long b = 0; b < s.right && b < s.width; b++) {
                Tap taps[MOST_TAPS];
                long n_taps = phase_taps(s, a, b, row, s.n_out, packed, s.n_out * s.n_in, taps);
                long width = (s.width - b + s.right - 1) / s.right;
                for (long h = a; h < s.height; h += s.down)
                    row_of_pixels<L>(width, image + (h - a) / s.down * row, s.n_out, taps, n_taps, s.n_out, s.n_in,
                                     found + ((n * s.height + h) * s.width + b) * s.n_in, s.right * s.n_in, 0);
            }
    }
}

// What the pixels of an image sum up to, added to what was found before; first by themselves, which rounds less.
static void add_pixels(const float *image, long pixels, long channels, float *found) {
    float sum[MOST_CHANNELS] = {};
    for (long p = 0; p < pixels; p++)
        for (long c = 0; c < channels; c++) sum[c] += image[p * channels + c];
    for (long c = 0; c < channels; c++) found[c] += sum[c];
}

template <int L>
static void by_weight(const Shape &s, const float *x, const float *sent, float *found, float *bias, float *packed,
                      float *room) {
    long row = s.room_width * s.n_in, together = s.gap_w == 1 ? s.wide * s.n_in : s.n_in;
    std::memset(packed, 0, 4 * s.high * s.wide * s.n_in * s.n_out);
    if (bias) std::memset(bias, 0, 4 * s.n_out);
    for (long n = 0; n < s.n; n++) {
        const float *image = padded(x + n * s.height * s.width * s.n_in, room, s.height, s.width, s.n_in, s.top, s.left, row);
        const float *back = sent + n * s.out_height * s.out_width * s.n_out;
        if (bias) add_pixels(back, s.out_height * s.out_width, s.n_out, bias);
        for (long t = 0; t < s.high * s.wide * s.n_in / together; t++) {
            long per_row = s.wide * s.n_in / together;
            const float *corner = image + t / per_row * s.gap_h * row + t % per_row * s.gap_w * s.n_in;
            float *into = packed + t * together * s.n_out;
            outers<L>(corner, s.down * row, s.right * s.n_in, back, s.out_height, s.out_width, together, s.n_out, into);
        }
    }
    for (long t = 0; t < s.high * s.wide; t++)
        for (long i = 0; i < s.n_in; i++)
            for (long o = 0; o < s.n_out; o++)
                found[o * s.weight_out + i * s.weight_in + t / s.wide * s.weight_h + t % s.wide * s.weight_w] =
                    packed[(t * s.n_in + i) * s.n_out + o];
}

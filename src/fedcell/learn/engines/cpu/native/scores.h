// Rows of scores: softmax, its gradient, and the gradient of the cross-entropy of classes.
#pragma once
#include "rows.h"

// y = exp(x - the largest), and their sum, which is 0 if all are -infinity; y are no numbers then.
static float exponentials(long width, const float *x, float *y) {
    wide top = wide{} - INFINITY, sum = {};
    over(
        width,
        [&](long k) {
            wide v = load<WIDEST>(x + k);
            top = top > v ? top : v;
        },
        [&](long k, long some) {
            for (long e = k; e < k + some; e++) top[0] = x[e] > top[0] ? x[e] : top[0];
        });
    const float most = highest(top);
    over(
        width,
        [&](long k) {
            wide v = exponential(load<WIDEST>(x + k) - most);
            store<WIDEST>(y + k, v);
            sum += v;
        },
        [&](long k, long some) {
            wide v = exponential(load_some<WIDEST>(x + k, some) - most);
            store_some<WIDEST>(y + k, v, some);
            for (long e = 0; e < some; e++) sum[0] += v[e];
        });
    return most == -INFINITY ? 0 : total(sum);
}

static void scaled_row(long width, float rate, float *y) {
    for (long k = 0; k < width; k++) y[k] *= rate;
}

// With `safe`, rows without any number above -infinity are zeros.
static void softmax_rows(long n, long width, bool safe, const float *x, float *y) {
    for (long i = 0; i < n; i++, x += width, y += width) {
        const float sum = exponentials(width, x, y);
        if (sum || !safe) scaled_row(width, 1 / sum, y);
        else std::memset(y, 0, 4 * width);
    }
}

// found = y (sent - sum of y sent)
static void softmax_rows_back(long n, long width, const float *sent, const float *y, float *found) {
    for (long i = 0; i < n; i++, sent += width, y += width, found += width) {
        wide sum = {};
        over(
            width, [&](long k) { sum += load<WIDEST>(sent + k) * load<WIDEST>(y + k); },
            [&](long k, long some) { sum += load_some<WIDEST>(sent + k, some) * load_some<WIDEST>(y + k, some); });
        const float level = total(sum);
        for (long k = 0; k < width; k++) found[k] = y[k] * (sent[k] - level);
    }
}

struct Scored {  // as Python gives it: samples and places of each, classes, and steps of both for scores, labels and so on
    long n, places, width, ignored, mean;
    long x[2], label[2], sent[2], found[2];
};

// By the scores: what is sent back times (softmax - 1 at the label), or over the labels that count if the loss is a mean.
static void cross_entropy_rows(const Scored &s, const float *x, const long *labels, const float *sent, float *found) {
    long counted = 0;
    for (long i = 0; i < s.n; i++)
        for (long j = 0; j < s.places; j++) counted += labels[i * s.label[0] + j * s.label[1]] != s.ignored;
    for (long i = 0; i < s.n; i++)
        for (long j = 0; j < s.places; j++) {
            const long label = labels[i * s.label[0] + j * s.label[1]];
            float *to = found + i * s.found[0] + j * s.found[1];
            if (label == s.ignored) {
                std::memset(to, 0, 4 * s.width);
                continue;
            }
            if (label < 0 || label >= s.width) {  // there is no such class: let nobody overlook it
                for (long k = 0; k < s.width; k++) to[k] = NAN;
                continue;
            }
            const float back = sent[i * s.sent[0] + j * s.sent[1]] / (s.mean ? counted : 1);
            const float sum = exponentials(s.width, x + i * s.x[0] + j * s.x[1], to);
            scaled_row(s.width, back / sum, to);
            to[label] -= back;
        }
}

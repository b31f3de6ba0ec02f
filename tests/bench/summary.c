// SPDX-License-Identifier: BSD-2-Clause
// Medians and quartiles of samples ("ROUND NAME VALUE" lines on its input).
//
//	summary NAME...		value of NAME
//		A/B		ratio: median of A over median of B
//		A-B		difference of the medians
//
// Prints for each argument the figure and its quartiles; those of a ratio or a difference
// are over the rounds, each with the A and B of that round. "-" where there is no sample.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define NAMES_MAX 64

struct series {
	char name[32];
	double *value; /* by round; NAN where there is none */
	size_t cnt;
};

static struct series series[NAMES_MAX];
static size_t series_cnt;

static struct series *find(const char *name, size_t len)
{
	for (size_t i = 0; i < series_cnt; i++)
		if (strlen(series[i].name) == len && !strncmp(series[i].name, name, len))
			return &series[i];
	return NULL;
}

static void add(const char *name, size_t round, double value)
{
	struct series *s = find(name, strlen(name));

	if (!s) {
		if (series_cnt == NAMES_MAX)
			die("more than %d names", NAMES_MAX);
		s = &series[series_cnt++];
		snprintf(s->name, sizeof(s->name), "%s", name);
	}
	while (s->cnt <= round) {
		s->value = array_grow(s->value, s->cnt, sizeof(*s->value));
		if (!s->value)
			die("out of memory");
		s->value[s->cnt++] = NAN;
	}
	s->value[round] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts; between two samples it interpolates. */
static double quantile(double *value, size_t cnt, double q)
{
	double at = q * (cnt - 1);
	size_t i = at;

	qsort(value, cnt, sizeof(*value), compare);
	return i + 1 < cnt ? value[i] + (at - i) * (value[i + 1] - value[i]) : value[i];
}

static double combine(char op, double a, double b)
{
	return op == '/' ? a / b : op == '-' ? a - b : a;
}

static void print(const struct series *a, char op, const struct series *b)
{
	_cleanup_free_ double *va = calloc(a->cnt, sizeof(*va));
	_cleanup_free_ double *vb = calloc(a->cnt, sizeof(*vb));
	_cleanup_free_ double *vc = calloc(a->cnt, sizeof(*vc));
	double result;
	size_t n = 0;

	if (!va || !vb || !vc)
		die("out of memory");
	for (size_t i = 0; i < a->cnt; i++) {
		if (isnan(a->value[i]) || (b && (i >= b->cnt || isnan(b->value[i]))))
			continue;
		va[n] = a->value[i];
		vb[n] = b ? b->value[i] : 1;
		vc[n] = combine(op, va[n], vb[n]);
		n++;
	}
	if (!n) {
		puts("-\t-\t-");
		return;
	}
	result = combine(op, quantile(va, n, 0.5), quantile(vb, n, 0.5));
	printf("%.6g\t%.6g\t%.6g\n", result, quantile(vc, n, 0.25),
		quantile(vc, n, 0.75));
}

int main(int argc, char **argv)
{
	char line[256], name[32];
	double value;
	size_t round;

	while (fgets(line, sizeof(line), stdin))
		if (sscanf(line, "%zu %31s %lf", &round, name, &value) == 3)
			add(name, round, value);
	for (int i = 1; i < argc; i++) {
		size_t len = strcspn(argv[i], "/-");
		const struct series *a = find(argv[i], len), *b = NULL;
		char op = argv[i][len];

		if (op)
			b = find(argv[i] + len + 1, strlen(argv[i] + len + 1));
		if (!a || (op && !b))
			puts("-\t-\t-");
		else
			print(a, op, b);
	}
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop-demo: known calls of functions that are fast, slow and failing, as a GPU's runtime
// looks from outside: something to try funcsnoop on.
//
//	demo_alloc	1000, of which 5 fail with code 2
//	demo_free	 995
//	demo_copy	 200, 2 ms each
//	demo_compute	 105: 100 of 10 ms, 5 of 100 ms
//	demo_flaky	 300, of which 30 fail with code 700
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Called as written, and by a name that outlives strip(1). */
#define API __attribute__((noipa, visibility("default")))

int demo_alloc(void **ptr, size_t size);
int demo_free(void *ptr);
int demo_copy(void *to, const void *from, size_t size);
int demo_compute(int us);
int demo_flaky(void);

/* 0, or 2 above 1 GiB. */
API int demo_alloc(void **ptr, size_t size)
{
	if (size > 1UL << 30)
		return 2;
	*ptr = malloc(size);
	return *ptr ? 0 : 2;
}

API int demo_free(void *ptr)
{
	free(ptr);
	return 0;
}

/* Takes 2 ms, asleep. */
API int demo_copy(void *to, const void *from, size_t size)
{
	struct timespec left = { 0, 2000000 };

	memcpy(to, from, size);
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	return 0;
}

static long long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Takes @us, at work. */
API int demo_compute(int us)
{
	long long end = now_us() + us;

	while (now_us() < end)
		;
	return 0;
}

/* 700 for every tenth call, else 0. */
API int demo_flaky(void)
{
	static int calls;

	return ++calls % 10 ? 0 : 700;
}

int main(void)
{
	static char from[4096], to[4096];
	long failed = 0;
	void *ptr;

	for (int i = 0; i < 1000; i++) {
		if (demo_alloc(&ptr, i % 200 == 199 ? 2UL << 30 : 1024))
			failed++;
		else
			demo_free(ptr);
		if (i % 5 == 0)
			demo_copy(to, from, sizeof(to));
		if (i % 10 == 0)
			demo_compute(10000);
		if (i % 200 == 0)
			demo_compute(100000);
	}
	for (int i = 0; i < 300; i++)
		failed += demo_flaky() != 0;
	printf("2600 calls, of which %ld failed\n", failed);
	return failed != 35;
}

// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the planner's exits, and some thousand random functions.
#include "../fuzz/flow_fuzz.c"

#include "found.h"

#define ROUNDS 8000

/* The same sequence everywhere (Numerical Recipes' constants). */
static uint8_t chance(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 24;
}

static void run_all(void)
{
	uint32_t state = 1;

	for (int i = 0; i < ROUNDS; i++) {
		uint8_t bytes[256];
		/* every other one is short: these have ends that are seen early */
		size_t size = i % 2 ? 16 + chance(&state) % 240 : 8 + chance(&state) % 48;

		for (size_t k = 0; k < size; k++)
			bytes[k] = chance(&state);
		LLVMFuzzerTestOneInput(bytes, size);
	}
}

static bool run_apart(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(4 * FOUND_SECONDS);
		run_all();
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void)
{
	ok(run_apart(), "flow: ends lie where control arrives and calls end, in %d functions",
		ROUNDS);
	return found_replay("flow");
}

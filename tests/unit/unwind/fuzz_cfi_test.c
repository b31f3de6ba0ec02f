// SPDX-License-Identifier: BSD-2-Clause
// Replays inputs found by fuzzing the rows that the BPF programs make.
#include "../../fuzz/cfi_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("cfi");
}

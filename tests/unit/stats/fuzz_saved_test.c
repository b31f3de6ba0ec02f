// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the reader of saved statistics.
#include "../../fuzz/saved_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("saved");
}

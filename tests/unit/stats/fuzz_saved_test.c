// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in what reads saved statistics.
#include "../../fuzz/saved_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("saved");
}

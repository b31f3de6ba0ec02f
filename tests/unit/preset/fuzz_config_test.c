// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the configuration reader.
#include "../../fuzz/config_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("config");
}

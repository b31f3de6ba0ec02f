// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in the configuration reader.
#include "../../fuzz/config_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("config");
}

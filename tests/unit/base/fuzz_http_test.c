// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the HTTP request parser.
#include "../../fuzz/http_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("http");
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Arguments of system calls and tracepoints as names: flags, modes, signals, commands. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NOTATION_LEN 192 /* of the longest text, cut there */

struct notation;

/*
 * Returns how argument @arg of system call or tracepoint @call is written, in static storage, or
 * NULL if it is a plain number. Values are those of this machine's headers.
 */
const struct notation *notation_of(const char *call, const char *arg);

/*
 * Writes @value to @buf: "O_RDONLY|O_CLOEXEC", "0644", "SIGKILL". Unknown bits follow in hex.
 * Returns @buf, or NULL if the value has no name.
 */
const char *notation_text(const struct notation *n, uint64_t value, char buf[NOTATION_LEN]);

/* Writes "SIGSEGV", "SIGRTMIN+3" or, of a signal without a name, "signal 32". Returns @buf. */
const char *signal_text(unsigned int signal, char buf[NOTATION_LEN]);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Work that must not end in the middle: done apart, whatever happens to the command. */
#ifndef FUNCSNOOP_BASE_APART_H
#define FUNCSNOOP_BASE_APART_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Runs @fn(@arg) in a child and waits for it. The child is out of reach of what ends the
 * command, be it a signal or a kill of its process group; when the command dies, @fn is to
 * return at the next point where it may: apart_stop(). What it writes is seen here only in
 * memory of apart_alloc(); if the child is killed, that is what it had written till then.
 * @tick, which may be NULL, is called with @tick_arg every 2 ms meanwhile. Where no child can
 * be had, @fn runs here, with all signals blocked.
 */
void apart_run(void (*fn)(void *arg), void *arg, void (*tick)(void *arg), void *tick_arg);

/* In @fn: whether to return now. */
bool apart_stop(void);

/* In @fn: whether the command is dead. */
bool apart_orphaned(void);

/* Zeroed memory that both see. apart_free() needs the same @size. */
void *apart_alloc(size_t size);
void apart_free(void *mem, size_t size);

#endif

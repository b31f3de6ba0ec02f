/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs work that must not be interrupted in a helper process, which survives the command. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Runs @fn(@arg) in a child and waits until it returns. Signals and kills of the command's process group do
 * not reach the child. If the command dies, @fn must return as soon as possible: see apart_stop().
 *
 * Only memory of apart_alloc() is shared: the caller sees what @fn wrote there, even if the child
 * is killed. Meanwhile @tick, which can be NULL, is called with @tick_arg every 2 ms. If no child
 * can be created, @fn runs in the caller with all signals blocked.
 */
void apart_run(void (*fn)(void *arg), void *arg, void (*tick)(void *arg), void *tick_arg);

/* Starts a thread to which no signals are delivered. Returns 0, or -EAGAIN. */
int apart_thread(pthread_t *ret_thread, void *(*fn)(void *arg), void *arg);

/* For @fn: true if it must return now. */
bool apart_stop(void);

/* For @fn: true if the command is dead. */
bool apart_orphaned(void);

/*
 * Makes helper processes keep lock @fd until they end, also if the command dies; not longer if they are
 * killed. @fn must not use @fd. -1: there is no lock.
 */
void apart_hold(int fd);

/* Allocates zeroed memory that both processes share. apart_free() needs the same @size. */
void *apart_alloc(size_t size);
void apart_free(void *mem, size_t size);

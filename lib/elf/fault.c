// SPDX-License-Identifier: BSD-2-Clause
// Files that are cut short while they are read.
//
// A file is mapped, not copied (there are libraries of gigabytes), and whoever may write it
// can make any page of it vanish: touching that is SIGBUS, the end of the command. So the
// pages from there on become zeros, and the file is known to have changed: whatever was
// read of it is refused.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "internal.h"

/* The list changes in one thread at a time; the handler only reads it. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static struct elf_watch *list;
static size_t page_size;

static struct elf_watch *watch_find(const uint8_t *addr)
{
	for (struct elf_watch *w = list; w; w = w->next)
		if (addr >= w->bytes && addr < w->bytes + w->size)
			return w;
	return NULL;
}

/* Returning repeats the access. One that is not of these files ends the process as ever. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
	const uint8_t *addr = info->si_addr;
	struct elf_watch *w = watch_find(addr);
	int saved = errno;
	size_t from;

	(void)context;
	from = w ? (size_t)(addr - w->bytes) & ~(page_size - 1) : 0;
	if (!w || mmap((void *)(uintptr_t)(w->bytes + from), w->size - from, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		signal(sig, SIG_DFL);
	else
		w->cut = 1;
	errno = saved;
}

static void handler_start(void)
{
	struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

	page_size = sysconf(_SC_PAGESIZE);
	sigaction(SIGBUS, &action, NULL);
}

/* Whole pages: what lies behind the end of the file in its last page is zeros. */
struct elf_watch *elf_watch_new(const uint8_t *bytes, size_t size)
{
	struct elf_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_once(&handler_once, handler_start);
	w->bytes = bytes;
	w->size = (size + page_size - 1) & ~(page_size - 1);
	pthread_mutex_lock(&list_lock);
	w->next = list;
	__atomic_store_n(&list, w, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&list_lock);
	return w;
}

void elf_watch_free(struct elf_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&list_lock);
	for (struct elf_watch **at = &list; *at; at = &(*at)->next)
		if (*at == watch) {
			*at = watch->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
	free(watch);
}

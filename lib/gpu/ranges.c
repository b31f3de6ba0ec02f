// SPDX-License-Identifier: BSD-2-Clause
// NVTX ranges: time from push to pop of a thread, and from start to end of a number.
//
// The headers of NVTX 3 load this library if NVTX_INJECTION64_PATH names it, and call
// InitializeInjectionNvtx2(), which puts the functions below into their list of functions. Each
// library of a process with these headers has its own list. Only a finished range makes a record. One
// trap passes up to 4096 on, mostly in the thread of gpu.c, and the kernel reads the rest when the
// process ends. Without a listener, only the depth of a thread's ranges is kept, so that each pop matches its
// push when a listener comes.
#include <pthread.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
#include <wchar.h>

#include "gpu/ranges.h"

#define DEPTH  64   /* of ranges with times, in a thread */
#define OPEN   4096 /* ranges in progress by number */

/* --- as NVTX has it: nvtxDetail/nvtxTypes.h and nvToolsExt.h ------------------------------------ */

typedef const struct nvtx_domain *nvtx_domain; /* here: the address of its name */

enum { NVTX_ASCII = 1, NVTX_WIDE = 2, NVTX_REGISTERED = 3 };

struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};
_Static_assert(offsetof(struct nvtx_attributes, message) == 40, "as NVTX has it");

enum { NVTX_CALLBACKS = 1, NVTX_CORE = 1, NVTX_CORE2 = 5 };

struct nvtx_callbacks {
	size_t size;
	int (*table)(int module, void ***ret_table, unsigned int *ret_cnt);
};

/* --- state -------------------------------------------------------------------------------------- */

struct frame {
	const char *name;
	uint64_t start; /* 0: began without a listener */
	uint64_t inner; /* ns of ranges inside */
	nvtx_domain domain;
};

static __thread struct {
	struct frame frame[DEPTH];
	int depth, over; /* .over: ranges inside of these, which have no times */
	pid_t tid;
	struct fsn_gpu_thread *shown; /* NULL: not yet, or no place */
} mine;

/* A thread keeps its place for good: one that gets the thread pointer of an ended one reuses it. */
struct fsn_gpu_thread ranges_of[FSN_GPU_THREADS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Protected by the lock. */
static struct {
	struct names names;
	uint64_t last; /* number of a range */
	struct {
		const char *name;
		uint64_t number, start;
	} open[OPEN]; /* by number; a much older one is overwritten */
} ranges;

struct fsn_gpu_ranges ranges_done;

/* A forked child has no thread that passes records on, and the lock may be held in it. */
static volatile bool is_child;

static void in_child(void)
{
	is_child = true;
	ranges_done.tail = ranges_done.head;
}

static bool is_heard(void)
{
	bool heard = ranges_wanted() && !is_child;

	if (heard && !__atomic_load_n(&ranges_told, __ATOMIC_RELAXED))
		ranges_send();
	return heard;
}

/* --- names -------------------------------------------------------------------------------------- */

static const char *keep(const char *text)
{
	const char *name = "[child]";

	if (is_child)
		return name;
	pthread_mutex_lock(&lock);
	name = name_of(&ranges.names, text);
	pthread_mutex_unlock(&lock);
	return name;
}

/* Converts @wide to UTF-8; the locale does not matter. */
static const char *narrow(const wchar_t *wide, char to[NAME_LEN])
{
	size_t len = 0;

	for (; wide && *wide && len < NAME_LEN - 4; wide++) {
		uint32_t c = (uint32_t)*wide;
		int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

		to[len++] = (char)(more ? 0xff00 >> (more + 1) | c >> 6 * more : c);
		for (; more > 0; more--)
			to[len++] = (char)(0x80 | (c >> 6 * (more - 1) & 0x3f));
	}
	to[len] = '\0';
	return to;
}

static const char *name_in(nvtx_domain domain, const char *text)
{
	char name[2 * NAME_LEN];

	if (!domain)
		return keep(text);
	snprintf(name, sizeof(name), "%s:%s", (const char *)domain, text ? text : "");
	return keep(name);
}

static const char *name_by(nvtx_domain domain, const struct nvtx_attributes *a)
{
	char text[NAME_LEN];

	if (!a || a->size < sizeof(*a) || a->message_type < NVTX_ASCII || a->message_type > NVTX_REGISTERED)
		return name_in(domain, NULL);
	return name_in(domain, a->message_type == NVTX_WIDE ? narrow(a->message, text) : a->message);
}

/* --- records ------------------------------------------------------------------------------------ */

static void add(const char *name, uint64_t start, uint64_t ns, uint64_t inner)
{
	struct fsn_gpu_ranges *done = &ranges_done;

	if (!mine.tid)
		mine.tid = gettid();
	pthread_mutex_lock(&lock);
	while (done->head - __atomic_load_n(&done->tail, __ATOMIC_ACQUIRE) == FSN_GPU_RANGES) {
		pthread_mutex_unlock(&lock);
		ranges_send();
		pthread_mutex_lock(&lock);
	}
	done->record[done->head % FSN_GPU_RANGES] = (struct fsn_gpu_record) { .name = (uintptr_t)name, .ns = ns,
		.bytes = ns > inner ? ns - inner : 0, .device = (uint32_t)mine.tid,
		.stream = FSN_GPU_NO_STREAM, .start = start };
	__atomic_store_n(&done->head, done->head + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

/* --- the innermost range of each thread, for BPF programs --------------------------------------- */

static pthread_key_t ending;

/* A thread ends: another one may get its pointer. */
static void unshow(void *place)
{
	__atomic_store_n(&((struct fsn_gpu_thread *)place)->range, 0, __ATOMIC_RELAXED);
}

static struct fsn_gpu_thread *place_find(void)
{
	unsigned long long pointer = (uintptr_t)__builtin_thread_pointer(), seen;

	for (unsigned int i = 0; i < FSN_GPU_THREAD_PROBES; i++) {
		struct fsn_gpu_thread *t = &ranges_of[gpu_thread_place(pointer, i)];

		seen = 0;
		if (__atomic_compare_exchange_n(&t->pointer, &seen, pointer, false, __ATOMIC_RELAXED,
			    __ATOMIC_RELAXED) || seen == pointer)
			return t;
	}
	return NULL;
}

static void show(void)
{
	const char *name = mine.depth ? mine.frame[mine.depth - 1].name : NULL;

	if (!mine.shown && name) {
		mine.shown = place_find();
		(void)pthread_setspecific(ending, mine.shown);
	}
	if (mine.shown)
		__atomic_store_n(&mine.shown->range, (uintptr_t)name, __ATOMIC_RELAXED);
}

/* --- push and pop; both return the depth of the range in its thread, from 0 --------------------- */

static struct frame *push(nvtx_domain domain)
{
	struct frame *f = &mine.frame[mine.depth];

	if (mine.depth == DEPTH) {
		mine.over++;
		return NULL;
	}
	mine.depth++;
	*f = (struct frame) { .domain = domain };
	return is_heard() ? f : NULL;
}

static int pushed(struct frame *f, const char *name)
{
	if (f) {
		f->name = name;
		show();
		f->start = now_ns();
	}
	return mine.depth + mine.over - 1;
}

/* Each domain has ranges of its own, which may end in another order than those around them. */
static int pop(nvtx_domain domain)
{
	uint64_t now = is_heard() ? now_ns() : 0;
	struct frame f;
	int i = mine.depth;

	if (mine.over)
		return mine.depth + --mine.over;
	while (i-- && mine.frame[i].domain != domain)
		;
	if (i < 0)
		return -1;
	f = mine.frame[i];
	mine.depth--;
	memmove(&mine.frame[i], &mine.frame[i + 1], (mine.depth - i) * sizeof(f));
	show();
	if (!f.start || !now)
		return i;
	if (i)
		mine.frame[i - 1].inner += now - f.start;
	add(f.name, f.start, now - f.start, f.inner);
	return i;
}

/* --- start and end, in any thread --------------------------------------------------------------- */

static uint64_t start(const char *name)
{
	uint64_t number, now = now_ns();

	pthread_mutex_lock(&lock);
	number = ++ranges.last;
	ranges_done.dropped += ranges.open[number % OPEN].number != 0;
	ranges.open[number % OPEN].number = number;
	ranges.open[number % OPEN].name = name;
	ranges.open[number % OPEN].start = now;
	pthread_mutex_unlock(&lock);
	return number;
}

static void end(uint64_t number)
{
	uint64_t now = number && !is_child ? now_ns() : 0;
	const char *name = NULL;
	uint64_t start = 0;
	size_t i = number % OPEN;

	if (!now)
		return;
	pthread_mutex_lock(&lock);
	if (ranges.open[i].number == number) {
		ranges.open[i].number = 0;
		name = ranges.open[i].name;
		start = ranges.open[i].start;
	}
	pthread_mutex_unlock(&lock);
	if (name && is_heard())
		add(name, start, now - start, 0);
}

/* --- NVTX's functions --------------------------------------------------------------------------- */

static int push_ex(const struct nvtx_attributes *a)
{
	struct frame *f = push(NULL);

	return pushed(f, f ? name_by(NULL, a) : NULL);
}

static int push_a(const char *text)
{
	struct frame *f = push(NULL);

	return pushed(f, f ? name_in(NULL, text) : NULL);
}

static int push_w(const wchar_t *text)
{
	struct frame *f = push(NULL);
	char to[NAME_LEN];

	return pushed(f, f ? name_in(NULL, narrow(text, to)) : NULL);
}

static int pop_plain(void)
{
	return pop(NULL);
}

static int domain_push_ex(nvtx_domain domain, const struct nvtx_attributes *a)
{
	struct frame *f = push(domain);

	return pushed(f, f ? name_by(domain, a) : NULL);
}

static uint64_t domain_start_ex(nvtx_domain domain, const struct nvtx_attributes *a)
{
	return is_heard() ? start(name_by(domain, a)) : 0;
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
	return domain_start_ex(NULL, a);
}

static uint64_t start_a(const char *text)
{
	return is_heard() ? start(name_in(NULL, text)) : 0;
}

static uint64_t start_w(const wchar_t *text)
{
	char to[NAME_LEN];

	return is_heard() ? start(name_in(NULL, narrow(text, to))) : 0;
}

static void domain_end(nvtx_domain domain, uint64_t number)
{
	(void)domain;
	end(number);
}

static const char *domain_string_a(nvtx_domain domain, const char *text)
{
	(void)domain;
	return keep(text);
}

static const char *domain_string_w(nvtx_domain domain, const wchar_t *text)
{
	char to[NAME_LEN];

	return domain_string_a(domain, narrow(text, to));
}

static const char *domain_a(const char *text)
{
	return keep(text);
}

static const char *domain_w(const wchar_t *text)
{
	return domain_string_w(NULL, text);
}

/* Indexed as NvtxCallbackIdCore and NvtxCallbackIdCore2. */
static void *const core[] = { [4] = start_ex, [5] = start_a, [6] = start_w, [7] = end, [8] = push_ex,
	[9] = push_a, [10] = push_w, [11] = pop_plain };
static void *const core2[] = { [2] = domain_start_ex, [3] = domain_end, [4] = domain_push_ex, [5] = pop,
	[10] = domain_string_a, [11] = domain_string_w, [12] = domain_a, [13] = domain_w };

static bool fill(const struct nvtx_callbacks *c, int module, void *const *own, unsigned int cnt)
{
	void **table = NULL;
	unsigned int size = 0;

	if (!c->table(module, &table, &size) || !table)
		return false;
	for (unsigned int i = 0; i < cnt && i < size; i++)
		if (own[i] && table[i])
			*(void **)table[i] = own[i];
	return true;
}

static bool watches;

static void watch(void)
{
	watches = !pthread_key_create(&ending, unshow) && !pthread_atfork(NULL, NULL, in_child);
}

/* NVTX calls it once for each list. A nonzero result means success. */
EXPORT int InitializeInjectionNvtx2(const void *(*exported)(uint32_t table));
int InitializeInjectionNvtx2(const void *(*exported)(uint32_t table))
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct nvtx_callbacks *c = exported(NVTX_CALLBACKS);

	if (!c || c->size < sizeof(*c) || pthread_once(&once, watch) || !watches ||
		!fill(c, NVTX_CORE, core, sizeof(core) / sizeof(*core)))
		return 0;
	(void)fill(c, NVTX_CORE2, core2, sizeof(core2) / sizeof(*core2));
	(void)InitializeInjection();
	ranges_send();
	return 1;
}

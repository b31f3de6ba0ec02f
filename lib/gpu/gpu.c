// SPDX-License-Identifier: BSD-2-Clause
// libfuncsnoop-gpu.so: reports GPU activity to tracers that probe it.
//
// The CUDA driver loads this library into processes whose environment names it
// (CUDA_INJECTION64_PATH), and calls InitializeInjection(); so does ranges.c, for NVTX. Without a
// listener, a thread only polls semaphores that the kernel increments when a probe is attached. With
// a listener, the libcupti of the process records GPU activity and returns it in buffers, on a
// thread of its own. From there, the records are passed on in batches.
//
// The library is a guest in the process: it handles no signals, no error ends the process, its
// memory is bounded, and what it does not understand is left alone. A forked child has neither its
// thread nor a GPU. Pending records are flushed at exit. Only CUPTI's code runs below its frames,
// and its own code never throws.
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/cupti.h"
#include "gpu/ranges.h"
#include "shared/gpu.h"

enum stream_of { KERNELS, COPIES, SETS, GRAPHS, RANGES, STREAM_CNT };

struct stream {
	/*
	 * The kernel counts the listeners in these words (USDT semaphores); this library only reads
	 * them.
	 */
	volatile unsigned short *wanted, *duty; /* .duty: indexed as in FSN_GPU_DUTIES */
	void (*send)(const struct fsn_gpu_batch *b); /* the function that tracers probe */
	uint32_t kinds[2]; /* of CUPTI activity; 0: none, or not of CUPTI */
};

/* --- Probe sites of libfuncsnoop-gpu.so: functions and semaphores for tracers ---------------- */

/* Semaphores: the kernel counts the listeners in them; this library only reads them. */
#define WANTED(name) \
	__attribute__((section(".probes"), used, visibility("hidden"))) volatile unsigned short \
		funcsnoop_gpu_##name##_wanted;
WANTED(kernels)
WANTED(copies)
WANTED(sets)
WANTED(graphs)
WANTED(ranges)

/* Listeners by the requested duty cycle, indexed as in FSN_GPU_DUTIES. */
#define DUTIES(name)                                                                   \
	__attribute__((section(".probes"), used, visibility("hidden"))) volatile unsigned short \
		funcsnoop_gpu_##name##_duty[FSN_GPU_DUTY_CNT];
DUTIES(kernels)
DUTIES(copies)
DUTIES(sets)
DUTIES(graphs)
DUTIES(ranges)

/* Listeners that request the launching call of each kernel. */
WANTED(launches)

/* A USDT note for a request. Its code is a nop that is never executed. */
#define ASKED(word, provider, probe)                                                   \
	".pushsection .text.unlikely, \"ax\", \"progbits\"\n"                           \
	"980:	nop\n"                                                                 \
	".popsection\n"                                                                \
	".pushsection .note.stapsdt, \"\", \"note\"\n"                                \
	".balign 4\n"                                                                  \
	".4byte 982f-981f, 984f-983f, 3\n"                                             \
	"981:	.asciz \"stapsdt\"\n"                                                 \
	"982:	.balign 4\n"                                                           \
	"983:	.8byte 980b, _.stapsdt.base, " word "\n"                               \
	".asciz \"" provider "\", \"" probe "\", \"\"\n"                               \
	"984:	.balign 4\n"                                                           \
	".popsection\n"
#define DUTY(name, number, seconds)                                                    \
	ASKED("funcsnoop_gpu_" #name "_duty+2*" #number, FSN_GPU_DUTY_PROVIDER, #name #seconds)

/*
 * An empty function with the note of a USDT probe: the address of the probe, the address of its
 * semaphore, and the location of the argument (the batch).
 */
#define PROBED(name, asked)                                                                    \
	__attribute__((noinline)) EXPORT void funcsnoop_gpu_##name(const struct fsn_gpu_batch *b); \
	void funcsnoop_gpu_##name(const struct fsn_gpu_batch *b)                               \
	{                                                                                      \
		__asm__ volatile("990:	nop\n"                                                 \
				 ".pushsection .note.stapsdt, \"\", \"note\"\n"                \
				 ".balign 4\n"                                                 \
				 ".4byte 992f-991f, 994f-993f, 3\n"                            \
				 "991:	.asciz \"stapsdt\"\n"                                  \
				 "992:	.balign 4\n"                                           \
				 "993:	.8byte 990b, _.stapsdt.base, funcsnoop_gpu_" #name     \
				 "_wanted\n"                                                   \
				 ".asciz \"" FSN_GPU_PROVIDER "\", \"" #name "\", \"8@%0\"\n"  \
				 "994:	.balign 4\n"                                           \
				 ".popsection\n"                                               \
				 FSN_GPU_DUTIES(DUTY, name) asked                              \
				 ".ifndef _.stapsdt.base\n"                                    \
				 ".pushsection .stapsdt.base, \"aG\", \"progbits\", "          \
				 ".stapsdt.base, comdat\n"                                     \
				 ".weak _.stapsdt.base\n"                                      \
				 ".hidden _.stapsdt.base\n"                                    \
				 "_.stapsdt.base: .space 1\n"                                  \
				 ".size _.stapsdt.base, 1\n"                                   \
				 ".popsection\n"                                               \
				 ".endif\n"                                                    \
				 :                                                             \
				 : "r"(b)                                                      \
				 : "memory");                                                  \
	}
PROBED(kernels,
	ASKED("funcsnoop_gpu_launches_wanted", FSN_GPU_ASK_PROVIDER, FSN_GPU_ASK_LAUNCHES))
PROBED(copies, "")
PROBED(sets, "")
PROBED(graphs, "")
PROBED(ranges, "")

static const struct stream streams[STREAM_CNT] = {
	[KERNELS] = { &funcsnoop_gpu_kernels_wanted, funcsnoop_gpu_kernels_duty,
		funcsnoop_gpu_kernels,
		{ CUPTI_CONCURRENT_KERNEL } },
	[COPIES] = { &funcsnoop_gpu_copies_wanted, funcsnoop_gpu_copies_duty,
		funcsnoop_gpu_copies,
		{ CUPTI_MEMCPY, CUPTI_MEMCPY2 } },
	[SETS] = { &funcsnoop_gpu_sets_wanted, funcsnoop_gpu_sets_duty,
		funcsnoop_gpu_sets, { CUPTI_MEMSET } },
	[GRAPHS] = { &funcsnoop_gpu_graphs_wanted, funcsnoop_gpu_graphs_duty,
		funcsnoop_gpu_graphs, { CUPTI_GRAPH } },
	[RANGES] = { &funcsnoop_gpu_ranges_wanted, funcsnoop_gpu_ranges_duty, funcsnoop_gpu_ranges },
};

static const unsigned int duties[FSN_GPU_DUTY_CNT] = {
#define SECONDS(what, number, seconds) [number] = (seconds),
	FSN_GPU_DUTIES(SECONDS, )
#undef SECONDS
};

/* True if a listener requests the launching calls of kernels. */
static bool launches_wanted(void)
{
	return funcsnoop_gpu_launches_wanted;
}

/*
 * Returns the requested period in seconds, of which one is recorded; 0: record always. The shortest
 * period satisfies all listeners. A listener without a period requests everything.
 */
static unsigned int period_wanted(enum stream_of s)
{
	unsigned int i = 0;

	while (i < FSN_GPU_DUTY_CNT && !streams[s].duty[i])
		i++;
	return i < FSN_GPU_DUTY_CNT && duties[i] > 1 ? duties[i] : 0;
}

/* Launching calls of kernels: a call and the record of its kernel share a correlation number. */

/* A kernel's record arrives at most this many calls after its launch. */
#define CALLS (1U << 18)

struct call {
	uint32_t correlation, thread;
	uint64_t begin, end;
};

static struct call *kept_calls;

/*
 * Called by one thread at a time, like all of these. Allocates the table once; false if out of
 * memory.
 */
static bool launches_room(void)
{
	if (!kept_calls)
		kept_calls = calloc(CALLS, sizeof(*kept_calls));
	return kept_calls;
}

/* A forked child starts with an empty table, because its parent's calls are not its own. */
static void launches_forget(void)
{
	free(kept_calls);
	kept_calls = NULL;
}

/*
 * The kernel identifies a thread by its thread pointer; on arm64 that is at a fixed distance from
 * pthread_self().
 */
static uint32_t pointer_of(uint32_t thread)
{
#if defined(__x86_64__)
	return thread;
#else
	return thread + (uint32_t)((uintptr_t)__builtin_thread_pointer() - (uintptr_t)pthread_self());
#endif
}

/* Stores a call, overwriting a much older one. Does nothing without the array. */
static void launches_keep(const struct cupti_call *c)
{
	struct call *call = kept_calls ? &kept_calls[c->correlation % CALLS] : NULL;

	if (!call || !c->correlation || !c->start || c->end < c->start)
		return;
	/* The runtime call contains the driver call. */
	if (call->correlation != c->correlation)
		*call = (struct call) { c->correlation, pointer_of(c->thread), c->start, c->end };
	if (c->start < call->begin)
		call->begin = c->start;
	if (c->end > call->end)
		call->end = c->end;
}

/* Finds a call by its correlation number; times are CUPTI's. False if it is not known. */
static bool launches_find(uint32_t correlation, struct fsn_gpu_launch *ret)
{
	const struct call *call = kept_calls ? &kept_calls[correlation % CALLS] : NULL;

	if (!call || !correlation || call->correlation != correlation)
		return false;
	*ret = (struct fsn_gpu_launch) { .begin = call->begin, .end = call->end,
		.thread = call->thread, .number = correlation };
	return true;
}

/* --- Which libcupti the process uses, and whether another tool uses it ----------------------- */

/* Tools that also use CUPTI, which accepts one client at a time. */
static const char *const tools[] = { "libToolsInjection", "libcuinj64", "libparcagpu",
	"libaccinj", "libTreeLauncher" };

struct loaded {
	char cupti[PATH_MAX], runtime[PATH_MAX];
	const char *other;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loaded *l = arg;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	if (!strncmp(name, "libcupti.so", 11))
		snprintf(l->cupti, sizeof(l->cupti), "%s", info->dlpi_name);
	if (!strncmp(name, "libcudart.so", 12))
		snprintf(l->runtime, sizeof(l->runtime), "%s", info->dlpi_name);
	for (size_t i = 0; i < sizeof(tools) / sizeof(*tools); i++)
		if (!strncmp(name, tools[i], strlen(tools[i])))
			l->other = tools[i];
	return 0;
}

static void *try_open(const char *path, char who[FSN_GPU_WHO])
{
	const char *slash = strrchr(path, '/');
	void *lib = *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (lib)
		snprintf(who, FSN_GPU_WHO, "%s", slash ? slash + 1 : path);
	return lib;
}

/* The libcupti of the process, otherwise the one next to its runtime, otherwise the toolkit's. */
static void *open_cupti(const struct loaded *l, char who[FSN_GPU_WHO])
{
	static const char *const beside[] = { "", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/" };
	static const char *const usual[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
		"libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
		"/usr/local/cuda/lib64/libcupti.so" };
	const char *said = getenv("FUNCSNOOP_CUPTI"), *slash = strrchr(l->runtime, '/');
	const char *version = slash ? strstr(slash, ".so") : NULL;
	char path[2 * PATH_MAX];
	void *lib = said ? try_open(said, who) : try_open(l->cupti, who);

	for (size_t i = 0; !said && !lib && version && i < sizeof(beside) / sizeof(*beside); i++) {
		snprintf(path, sizeof(path), "%.*s/%slibcupti%s", (int)(slash - l->runtime),
			l->runtime, beside[i], version);
		lib = try_open(path, who);
	}
	for (size_t i = 0; !said && !lib && i < sizeof(usual) / sizeof(*usual); i++)
		lib = try_open(usual[i], who);
	return lib;
}

static bool take_functions(struct cupti *cupti, void *lib)
{
#define X(name, symbol, args) *(void **)&cupti->name = dlsym(lib, #symbol);
	CUPTI_FUNCS(X)
#undef X
	/* cuptiActivityFlushPeriod() is optional: it exists since CUDA 11.1. */
	return cupti->register_callbacks && cupti->enable && cupti->disable && cupti->next &&
		cupti->dropped && cupti->flush;
}

/*
 * Finds and loads the libcupti of the process, or that of the toolkit. Returns FSN_GPU_RUNS, or the
 * obstacle. Stores the name of the library, or of the tool that uses it, in @who.
 */
static enum fsn_gpu_state cupti_find(struct cupti *ret, char who[FSN_GPU_WHO])
{
	struct loaded loaded = {};
	void *lib;

	snprintf(who, FSN_GPU_WHO, "libcupti");
	dl_iterate_phdr(look_at, &loaded);
	if (loaded.other) {
		snprintf(who, FSN_GPU_WHO, "%s", loaded.other);
		return FSN_GPU_TAKEN;
	}
	lib = open_cupti(&loaded, who);
	return lib && take_functions(ret, lib) ? FSN_GPU_RUNS : FSN_GPU_NO_LIB;
}

/* For callers outside a GPU job: reports whether a job could be recorded. */
EXPORT int funcsnoop_gpu_try(struct fsn_gpu_tried *ret);
int funcsnoop_gpu_try(struct fsn_gpu_tried *ret)
{
	struct cupti cupti = {};

	ret->code = 0;
	ret->state = cupti_find(&cupti, ret->who);
	if (ret->state == FSN_GPU_RUNS)
		ret->code = cupti.enable(CUPTI_CONCURRENT_KERNEL);
	if (ret->code)
		ret->state = FSN_GPU_REFUSED;
	return 0;
}

#define POLL_NS       100000000L /* interval at which the thread checks for listeners */
#define REPORT_EVERY  10         /* intervals between two reports of the state */
#define FLUSH_MS      1000
#define DUTY_MAX      3600 /* s */
#define BUFFER_BYTES  (1U << 20)
#define BUFFERS_MAX   32
#define CLOCK_READINGS 5
#define STACK_BYTES   (1U << 20) /* minimum, because CUPTI and the dynamic loader run on this
				    stack */

/* Record .window_s of each .period_s seconds, starting at .begun; .period_s 0: always. */
struct duty {
	unsigned int window_s, period_s;
	time_t begun;
};

/* --- state; each part is used by one thread at a time ---------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Protects only the buffers, because a thread that launches a kernel may have to request one. */
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* taken to start and stop recording, and
							    at exit */

static struct {
	pid_t pid; /* owner of this state; differs in a forked child */
	struct cupti cupti;
	bool opened;           /* libcupti was searched for */
	bool records;          /* CUPTI uses the callbacks and buffers of this library */
	bool ended;            /* exit() was called */
	bool on[STREAM_CNT];   /* stream is being recorded */
	bool calls;            /* launching calls are being recorded */
	struct duty duty[STREAM_CNT], own; /* .own: from the environment of the job */
	uint64_t ahead;        /* CUPTI's clock minus CLOCK_MONOTONIC, ns */
	bool clock_known;      /* .ahead is valid */
	time_t last;           /* s; last buffer received, or the start of recording */
	struct fsn_gpu_batch batch[STREAM_CNT];
	uint8_t *free[BUFFERS_MAX], *buffer[BUFFERS_MAX];
	unsigned int free_cnt, buffer_cnt;
	struct names names;
	unsigned int state;
	int code;
	unsigned long long dropped;
	char who[FSN_GPU_WHO];
} gpu;

uint64_t now_ns(void)
{
	struct timespec now = {};

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static time_t now_s(void)
{
	return (time_t)(now_ns() / 1000000000);
}

/*
 * Measures the distance of CUPTI's clock from CLOCK_MONOTONIC. CUPTI does not document its clock,
 * so both are read together.
 */
static void read_clocks(void)
{
	uint64_t best = UINT64_MAX;

	gpu.clock_known = false;
	for (int i = 0; gpu.cupti.timestamp && i < CLOCK_READINGS; i++) {
		uint64_t before = now_ns(), theirs, after;

		if (gpu.cupti.timestamp(&theirs))
			return;
		after = now_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		gpu.ahead = theirs - (before + (after - before) / 2);
		gpu.clock_known = true;
	}
}

/* Passes the batch of @s and the state to tracers, and empties it. */
static void batch_send(enum stream_of s)
{
	struct fsn_gpu_batch *b = &gpu.batch[s];

	if (s == RANGES) {
		snprintf(b->who, sizeof(b->who), "lib" FSN_GPU_LIB ".so");
		b->threads = (uintptr_t)ranges_of;
		b->ranges = (uintptr_t)&ranges_done;
		b->dropped = ranges_done.dropped;
	} else {
		b->state = gpu.state;
		b->code = gpu.code;
		b->dropped = gpu.dropped;
		b->idle_s = gpu.on[s] ? (unsigned int)(now_s() - gpu.last) : 0;
		memcpy(b->who, gpu.who, sizeof(b->who));
	}
	b->window_s = gpu.duty[s].window_s;
	b->period_s = gpu.duty[s].period_s;
	if (*streams[s].wanted)
		streams[s].send(b);
	b->cnt = 0;
}

bool ranges_told;

void ranges_send(void)
{
	unsigned long long end;
	bool told;

	pthread_mutex_lock(&lock);
	told = *streams[RANGES].wanted;
	end = __atomic_load_n(&ranges_done.head, __ATOMIC_ACQUIRE);
	batch_send(RANGES);
	__atomic_store_n(&ranges_done.tail, end, __ATOMIC_RELEASE);
	__atomic_store_n(&ranges_told, told, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
}

/* --- names -------------------------------------------------------------------------------------- */

static uint64_t name_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
	return hash;
}

const char *name_of(struct names *names, const char *text)
{
	static const char others[] = "[others]", none[] = "[no name]";
	char shown[NAME_LEN];
	uint64_t hash;
	size_t i;

	if (!text || !*text)
		return none;
	hash = name_hash(text);
	/*
	 * A name that is too long ends in a hash, which distinguishes it from others with the same
	 * prefix.
	 */
	if (snprintf(shown, sizeof(shown), "%s", text) >= (int)sizeof(shown))
		snprintf(shown + NAME_LEN - 10, 10, "~%08x", (uint32_t)hash);
	for (i = hash % NAME_PLACES; names->text[i]; i = (i + 1) % NAME_PLACES)
		if (!strcmp(names->text[i], shown))
			return names->text[i];
	if (names->cnt == NAMES_MAX)
		return others;
	names->text[i] = strdup(shown);
	names->cnt += names->text[i] != NULL;
	return names->text[i] ? names->text[i] : others;
}

/* --- records ------------------------------------------------------------------------------------- */

/* False while a duty cycle leaves ranges out. */
static bool ranges_due = true;

bool ranges_wanted(void)
{
	return funcsnoop_gpu_ranges_wanted && __atomic_load_n(&ranges_due, __ATOMIC_RELAXED);
}

static void add_record(enum stream_of s, const struct fsn_gpu_record *r, uint64_t start, uint64_t end)
{
	struct fsn_gpu_batch *b = &gpu.batch[s];

	b->record[b->cnt] = *r;
	b->record[b->cnt].start = gpu.clock_known && start > gpu.ahead ? start - gpu.ahead : 0;
	b->record[b->cnt].ns = start && end >= start ? end - start : FSN_GPU_UNTIMED;
	if (++b->cnt == FSN_GPU_BATCH)
		batch_send(s);
}

/* Numbered as in CUpti_ActivityMemcpyKind. */
static const char *copy_name(unsigned int kind)
{
	static const char *const names[] = { [1] = "[copy host to device]",
		[2] = "[copy device to host]", [3] = "[copy host to array]",
		[4] = "[copy array to host]", [5] = "[copy array to array]",
		[6] = "[copy array to device]", [7] = "[copy device to array]",
		[8] = "[copy device to device]", [9] = "[copy host to host]",
		[10] = "[copy device to other device]" };
	const char *name = kind < sizeof(names) / sizeof(*names) ? names[kind] : NULL;

	return name ? name : "[copy]";
}

/*
 * Adds the launching call to the next kernel record. Times before the start of CLOCK_MONOTONIC are
 * dropped.
 */
static void take_launch(uint32_t correlation)
{
	struct fsn_gpu_batch *b = &gpu.batch[KERNELS];
	struct fsn_gpu_launch launch;

	b->launch[b->cnt] = (struct fsn_gpu_launch) {};
	if (!gpu.calls || !gpu.clock_known || !launches_find(correlation, &launch) ||
		launch.begin <= gpu.ahead)
		return;
	launch.begin -= gpu.ahead;
	launch.end -= gpu.ahead;
	b->launch[b->cnt] = launch;
}

static void take_kernel(const struct cupti_kernel *k)
{
	const struct fsn_gpu_record r = { .name = (uintptr_t)name_of(&gpu.names, k->name),
		.device = k->device, .stream = k->stream };

	take_launch(k->correlation);
	add_record(KERNELS, &r, k->start, k->end);
}

static void take_copy(const struct cupti_copy *c)
{
	bool set = c->kind == CUPTI_MEMSET;
	const struct fsn_gpu_record r = {
		.name = (uintptr_t)(set ? "[set]" : copy_name(c->copy)), .bytes = c->bytes,
		.device = c->device, .stream = c->stream, .kind = set ? 0 : c->copy };

	add_record(set ? SETS : COPIES, &r, c->start, c->end);
}

/* A graph is one record: CUPTI does not report its kernels while graphs are recorded. */
static void take_graph(const struct cupti_graph *g)
{
	char name[32];
	struct fsn_gpu_record r = { .device = g->device, .stream = g->stream };

	snprintf(name, sizeof(name), "[graph %u]", g->graph);
	r.name = (uintptr_t)name_of(&gpu.names, name);
	add_record(GRAPHS, &r, g->start, g->end);
}

/* Runs before the kernels are read, because the records of a buffer are unordered. */
static void take_calls(uint8_t *buffer, size_t valid)
{
	void *record = NULL;

	while (gpu.calls && valid && !gpu.cupti.next(buffer, valid, &record) && record)
		if (*(uint32_t *)record == CUPTI_DRIVER || *(uint32_t *)record == CUPTI_RUNTIME)
			launches_keep(record);
}

/* Sends the records in the first @valid bytes of @buffer. */
static void take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t valid)
{
	size_t dropped = 0;
	void *record = NULL;

	read_clocks();
	take_calls(buffer, valid);
	while (valid && !gpu.cupti.next(buffer, valid, &record) && record) {
		switch (*(uint32_t *)record) {
		case CUPTI_CONCURRENT_KERNEL:
			take_kernel(record);
			break;
		case CUPTI_MEMCPY:
		case CUPTI_MEMCPY2:
		case CUPTI_MEMSET:
			take_copy(record);
			break;
		case CUPTI_GRAPH:
			take_graph(record);
			break;
		}
	}
	if (!gpu.cupti.dropped(context, stream, &dropped))
		gpu.dropped += dropped;
	gpu.last = now_s();
	for (int s = 0; s < STREAM_CNT; s++)
		if (gpu.batch[s].cnt)
			batch_send(s);
}

/*
 * CUPTI may also call back in a forked child, where the locks are in the state in which the
 * parent's threads held them. A child has no GPU and nothing to report.
 */
static bool is_forked_child(void)
{
	return gpu.pid != getpid();
}

/* CUPTI requests a buffer. Without one, it drops records and counts them. */
static void buffer_requested(uint8_t **ret_buffer, size_t *ret_size, size_t *ret_records)
{
	*ret_buffer = NULL;
	*ret_size = *ret_records = 0;
	if (is_forked_child())
		return;
	pthread_mutex_lock(&pool);
	if (gpu.free_cnt) {
		*ret_buffer = gpu.free[--gpu.free_cnt];
	} else if (gpu.buffer_cnt < BUFFERS_MAX) {
		*ret_buffer = aligned_alloc(64, BUFFER_BYTES);
		if (*ret_buffer)
			gpu.buffer[gpu.buffer_cnt++] = *ret_buffer;
	}
	*ret_size = *ret_buffer ? BUFFER_BYTES : 0;
	pthread_mutex_unlock(&pool);
}

/* Buffers of another profiler, which registered its callbacks first, must not be reused. */
static bool is_own(const uint8_t *buffer)
{
	for (unsigned int i = 0; i < gpu.buffer_cnt; i++)
		if (gpu.buffer[i] == buffer)
			return true;
	return false;
}

static void buffer_completed(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	if (!buffer || is_forked_child())
		return;
	pthread_mutex_lock(&lock);
	take_buffer(context, stream, buffer, valid);
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&pool);
	if (is_own(buffer) && gpu.free_cnt < BUFFERS_MAX)
		gpu.free[gpu.free_cnt++] = buffer;
	pthread_mutex_unlock(&pool);
}

/* --- recording ----------------------------------------------------------------------------------- */

/* Loads libcupti only when a listener exists, because the process may still load its own. */
static bool cupti_ready(void)
{
	if (!gpu.opened)
		gpu.state = cupti_find(&gpu.cupti, gpu.who);
	gpu.opened = true;
	return gpu.state == FSN_GPU_RUNS;
}

/*
 * Flushes what is recorded, unless the thread does not return from CUPTI within a second. Handlers
 * run in reverse order of registration, so CUPTI is still intact.
 */
static void at_exit(void)
{
	struct timespec until;

	if (gpu.ended || is_forked_child())
		return;
	gpu.ended = true;
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_mutex_timedlock(&turn, &until))
		return;
	if (gpu.records)
		(void)gpu.cupti.flush(1);
	ranges_send();
	/* The lock stays held, so that recording cannot start again. */
}

/* Called without the lock, because CUPTI may deliver buffers meanwhile and wait for it. */
static int cupti_start(enum stream_of s)
{
	int code = gpu.records ? 0 : gpu.cupti.register_callbacks(buffer_requested, buffer_completed);

	for (int i = 0; !code && i < 2 && streams[s].kinds[i]; i++)
		code = gpu.cupti.enable(streams[s].kinds[i]);
	if (code)
		return code;
	if (gpu.records)
		return 0;
	if (gpu.cupti.flush_period)
		(void)gpu.cupti.flush_period(FLUSH_MS);
	(void)atexit(at_exit);
	gpu.records = true;
	return 0;
}

static void start(enum stream_of s)
{
	int code;

	if (!cupti_ready())
		return;
	pthread_mutex_lock(&lock);
	gpu.last = now_s();
	pthread_mutex_unlock(&lock);
	code = cupti_start(s);
	pthread_mutex_lock(&lock);
	if (code) {
		gpu.state = FSN_GPU_REFUSED;
		gpu.code = code;
	}
	gpu.on[s] = !code;
	pthread_mutex_unlock(&lock);
}

static void stop(enum stream_of s)
{
	for (int i = 0; i < 2 && streams[s].kinds[i]; i++)
		(void)gpu.cupti.disable(streams[s].kinds[i]);
	pthread_mutex_lock(&lock);
	gpu.on[s] = false;
	pthread_mutex_unlock(&lock);
}

/* Records launching calls; they are only needed while kernels are recorded. */
static void record_calls(bool on)
{
	static const uint32_t kinds[] = { CUPTI_DRIVER, CUPTI_RUNTIME };

	pthread_mutex_lock(&lock);
	gpu.calls = on = on && launches_room();
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		(void)(on ? gpu.cupti.enable(kinds[i]) : gpu.cupti.disable(kinds[i]));
}

/* --- the thread that checks for listeners ---------------------------------------------------- */

/* The duty cycle in the environment of the job takes precedence over requests. */
static bool in_window(enum stream_of s)
{
	struct duty *d = &gpu.duty[s];
	unsigned int period_s = gpu.own.period_s ? gpu.own.period_s : period_wanted(s);

	if (gpu.own.period_s)
		*d = gpu.own;
	else if (d->period_s != period_s)
		*d = (struct duty) { period_s ? 1 : 0, period_s, now_s() };
	return !period_s || (now_s() - d->begun) % period_s < d->window_s;
}

/*
 * Starts and stops recording of each stream as listeners and duty cycles require. With @report also
 * sends the state to listeners. Returns true if a stream is recorded.
 */
static bool recording_update(bool report)
{
	bool any = false, calls;

	for (int s = 0; s < STREAM_CNT; s++) {
		bool wanted = *streams[s].wanted, now;

		pthread_mutex_lock(&lock);
		now = wanted && in_window(s);
		pthread_mutex_unlock(&lock);
		if (s == RANGES) {
			__atomic_store_n(&ranges_due, now || !wanted, __ATOMIC_RELAXED);
			if (report || wanted != ranges_told || ranges_done.head != ranges_done.tail)
				ranges_send();
		} else if (now && !gpu.on[s]) {
			start(s);
		} else if (!now && gpu.on[s]) {
			stop(s);
		}
		any |= gpu.on[s];
		if (s == RANGES || !wanted || !report)
			continue;
		pthread_mutex_lock(&lock);
		batch_send(s);
		pthread_mutex_unlock(&lock);
	}
	calls = gpu.on[KERNELS] && launches_wanted();
	if (calls != gpu.calls)
		record_calls(calls);
	return any;
}

/* The thread of this library: never returns. */
static void *run(void *unused)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	unsigned int turns = 0;
	bool any;

	for (;;) {
		pthread_mutex_lock(&turn);
		any = recording_update(turns % REPORT_EVERY == 1);
		/* This libcupti cannot flush periodically. */
		if (any && !gpu.cupti.flush_period && turns % REPORT_EVERY == 0)
			(void)gpu.cupti.flush(0);
		pthread_mutex_unlock(&turn);
		turns++;
		(void)nanosleep(&pause, NULL);
	}
	return NULL;
}

/* "1/30": one second in thirty. An invalid value is ignored: everything is recorded. */
static void read_duty(void)
{
	const char *text = getenv("FUNCSNOOP_GPU_DUTY");
	unsigned int window, period;
	char rest;

	if (!text || sscanf(text, "%u/%u%c", &window, &period, &rest) != 2 || !window ||
		window >= period || period > DUTY_MAX)
		return;
	gpu.own = (struct duty) { window, period, now_s() };
}

/* The driver calls it once, in cuInit(). A nonzero result means success. */
int InitializeInjection(void)
{
	static pid_t owner;
	pid_t was = __atomic_exchange_n(&owner, getpid(), __ATOMIC_ACQ_REL);
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	size_t stack;

	if (was == getpid() || (!was && atexit(at_exit)))
		return 1;
	/* In a forked child that initializes CUDA again, the parent's state does not apply. */
	if (was) {
		memset(&gpu, 0, sizeof(gpu));
		launches_forget();
		lock = pool = turn = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	}
	gpu.pid = getpid();
	read_duty();
	if (pthread_attr_init(&attr))
		return 1;
	sigfillset(&all);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The default stack size of the process may be small. */
	if (pthread_attr_getstacksize(&attr, &stack) || stack < STACK_BYTES)
		(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, &attr, run, NULL))
		(void)pthread_setname_np(thread, "funcsnoop-gpu");
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return 1;
}

// SPDX-License-Identifier: BSD-2-Clause
// Stacks of threads, without stopping them. A BPF iterator reads the registers of those that sleep, and
// process_vm_readv(2) reads their memory; one sample of the CPU clock has both for one that runs.
// Frames are unwound like in the BPF programs. Stacks of processes that died are unwound from the copy
// that the BPF programs made.
#include <asm/perf_regs.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/err.h"
#include "group/stacks.h"
#include "internal.h"
#include "proc/proc.h"
#include "stats/stats.h"
#include "unwind/python.h"
#include "unwind/unwind.h"

/* A mapped file, opened when the first frame in it is unwound. */
struct thread_file {
	dev_t dev;
	uint64_t ino, size;
	char *path;
	struct elf_file *elf; /* or NULL */
	struct unwind_rows rows;
};

#define FRESH_NS 1000000 /* by which durations may be too short */

struct thread_names {
	struct frame_name *of;
	size_t cnt;
};

/* Stacks with calls of Python are walked further than shown, to count these. */
#define WALK_MAX (FSN_FRAMES_MAX + 3072)

struct thread_stacks {
	struct engine *e;
	bool lines;
	int prog_fd;
	struct fsn_thread at; /* the thread of the last stack */
	struct thread_file **files;
	size_t file_cnt;
	struct thread_names *natives; /* of the last stack, */
	char **names;                 /* and those of Python */
	size_t native_cnt, name_cnt;
	struct thread_frame frames[WALK_MAX];
	size_t cnt;
	struct thread_frame *merged; /* the same with frames of Python */
	struct perf_map *maps;       /* names of code that processes have made */
	pid_t nameless;              /* one that has no name for some of its own */
	uint64_t fresh_ns;           /* when this thread got its CPU, at the earliest */
	struct sampled *sampled;     /* threads that run */
	size_t sampled_cnt;
};

/* A part of a thread's stack. */
struct thread_copy {
	uint64_t at; /* its address */
	const void *bytes;
	size_t size;
};

/* A walk in progress. */
struct thread_walk {
	struct thread_stacks *s;
	const struct fsn_thread *at;
	const struct fsn_crash *crash; /* NULL: the process lives */
	struct thread_copy copy;       /* of its stack; empty: that is read from the process, */
	struct thread_copy window;     /* some of it at once */
	char bytes[2048];              /* .window's */
	const struct proc_maps *maps;
	uint64_t pc, sp, fp;
	bool exact; /* .pc is the next instruction, not a return address */
	struct thread_file
		*python; /* the Python interpreter on the stack, or NULL */
	uint64_t bias;   /* load address of .python minus its link address */
};

static void samples_done(struct thread_stacks *s);

int thread_stacks_new(bool lines, struct thread_stacks **ret_stacks, struct err *err)
{
	_cleanup_thread_stacks_ struct thread_stacks *s = xcalloc(1, sizeof(*s));
	int code;

	s->lines = lines;
	code = engine_new_threads(&s->e, &s->prog_fd, err);
	if (!code)
		*ret_stacks = TAKE_PTR(s);
	return code;
}

void thread_stacks_new_dead(bool lines, struct thread_stacks **ret_stacks)
{
	struct thread_stacks *s = xcalloc(1, sizeof(*s));

	s->lines = lines;
	*ret_stacks = s;
}

/* The last stack: a process can have thousands of threads with large names. */
static void stack_done(struct thread_stacks *s)
{
	for (size_t i = 0; i < s->name_cnt; i++)
		free(s->names[i]);
	for (size_t i = 0; i < s->native_cnt; i++)
		frame_names_free(s->natives[i].of, s->natives[i].cnt);
	free(s->merged);
	s->merged = NULL;
	s->name_cnt = s->native_cnt = s->cnt = 0;
}

void thread_stacks_free(struct thread_stacks *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->file_cnt; i++) {
		unwind_rows_done(&s->files[i]->rows);
		elf_file_free(s->files[i]->elf);
		free(s->files[i]->path);
		free(s->files[i]);
	}
	stack_done(s);
	samples_done(s);
	perf_maps_free(s->maps);
	free(s->natives);
	free(s->names);
	free(s->files);
	engine_free(s->e);
	free(s);
}

/* --- where it sleeps --------------------------------------------------------------------------- */

/* 0, -EBUSY when it does not sleep, -ESRCH without memory, and what bpf(2) gives. */
static int look_at(const struct thread_stacks *s, pid_t tid, struct fsn_thread *ret_at)
{
	union bpf_iter_link_info info = { .task.tid = (__u32)tid };
	_cleanup_close_ int fd = iterate_tasks(s->prog_fd, &info);
	struct fsn_thread at[8];
	ssize_t got;

	if (fd < 0)
		return fd;
	while ((got = read(fd, at, sizeof(at))) > 0)
		for (size_t i = 0; i < (size_t)got / sizeof(*at); i++)
			if (at[i].tid == (unsigned int)tid) {
				*ret_at = at[i];
				return at[i].pc ? 0 : -EBUSY;
			}
	return got < 0 ? -errno : -ESRCH;
}

/* --- files -------------------------------------------------------------------------------------- */

/* The vDSO, which all processes have, is a file without number. */
static const struct proc_map vdso = { .path = (char[]) { ELF_VDSO } };

static struct elf_file *open_mapped(pid_t pid, const struct proc_map *map)
{
	struct elf_file *elf = NULL;
	int fd;

	if (map == &vdso)
		return elf_vdso_open(&elf) ? NULL : elf;
	fd = pid ? proc_open_mapped("/proc", pid, map, NULL) : proc_open_regular(map->path, NULL);
	return fd < 0 || elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL) ? NULL : elf;
}

static struct thread_file *file_new(struct thread_stacks *s, pid_t pid, const struct proc_map *map)
{
	struct thread_file *file = xcalloc(1, sizeof(*file));
	const struct elf_func *funcs;
	size_t cnt;

	*array_add(s->files, s->file_cnt) = file;
	file->dev = makedev(map->dev_major, map->dev_minor);
	file->ino = map->ino;
	file->path = xstrdup(map->path);
	file->elf = open_mapped(pid, map);
	if (!file->elf)
		return file;
	/* Without symbols frames are places in files, without rows they end there. */
	(void)!elf_file_funcs(file->elf, &funcs, &cnt, NULL);
	(void)!unwind_rows_read(file->elf, &file->rows, NULL);
	return file;
}

/* Returns the file of the code at @at, and its offset there, or NULL with @at. */
static struct thread_file *file_at(
	struct thread_stacks *s, const struct thread_walk *w, uint64_t at, uint64_t *ret_offset)
{
	const struct proc_map *map = proc_maps_at(w->maps, at, ret_offset);
	dev_t dev;

	if (!map) {
		*ret_offset = at;
		/* That of 32-bit programs is below. */
		if (!(at >> 32) || at - w->maps->vdso >= w->maps->vdso_end - w->maps->vdso)
			return NULL;
		*ret_offset = at - w->maps->vdso;
		map = &vdso;
	}
	dev = makedev(map->dev_major, map->dev_minor);
	for (size_t i = 0; i < s->file_cnt; i++)
		if (s->files[i]->dev == dev && s->files[i]->ino == map->ino)
			return s->files[i];
	return file_new(s, w->crash ? 0 : (pid_t)w->at->pid, map);
}

static const struct fsn_unwind_row *row_at(const struct unwind_rows *rows, uint64_t offset)
{
	size_t next = FIRST_WHERE(rows->cnt, i, rows->rows[i].offset > offset);

	return next ? &rows->rows[next - 1] : NULL;
}

/* --- the stack ---------------------------------------------------------------------------------- */

static bool read_copy(const struct thread_copy *c, uint64_t addr, uint64_t *ret)
{
	uint64_t at = addr - c->at;

	if (at >= c->size || c->size - at < sizeof(*ret))
		return false;
	memcpy(ret, (const char *)c->bytes + at, sizeof(*ret));
	return true;
}

static bool read_word(struct thread_walk *w, uint64_t addr, uint64_t *ret)
{
	size_t left = 4096 - addr % 4096, size = left < sizeof(w->bytes) ? left : sizeof(w->bytes);
	struct iovec to = { w->bytes, size };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is another process's */
	struct iovec from = { (void *)addr, size };

	if (w->copy.bytes)
		return read_copy(&w->copy, addr, ret);
	if (read_copy(&w->window, addr, ret))
		return true;
	w->window.size = 0;
	if (process_vm_readv((pid_t)w->at->pid, &to, 1, &from, 1, 0) != (ssize_t)size)
		return false;
	w->window = (struct thread_copy) { addr, w->bytes, size };
	return read_copy(&w->window, addr, ret);
}

/* The one that the kernel has taken for its own: walk_return() of bpf/unwind.bpf.h. */
static bool find_return(struct thread_walk *w, uint64_t place)
{
	if (!w->at->trampoline || w->pc != w->at->trampoline)
		return true;
	for (size_t i = 0; i < FSN_RETURNS_MAX && w->at->place[i]; i++)
		if (w->at->place[i] >= place) {
			w->pc = w->at->to[i];
			return true;
		}
	return false;
}

static enum fsn_walk_end step_by_fp(struct thread_walk *w)
{
	uint64_t fp = w->fp, pc, next;

	if (!fp)
		return FSN_WALK_OUTERMOST;
	if (fp < w->sp || fp - w->sp > 1 << 20 || fp & 7 || !read_word(w, fp, &next) ||
		!read_word(w, fp + 8, &pc))
		return FSN_WALK_NO_RULE;
	w->pc = pc;
	w->sp = fp + 16;
	w->fp = next;
	return 0;
}

/* struct rt_sigframe after its first word, arch/x86/include/asm/sigframe.h */
static enum fsn_walk_end step_signal(struct thread_walk *w)
{
	uint64_t sp = w->sp;

	if (!read_word(w, sp + 0x78, &w->fp) || !read_word(w, sp + 0xa8, &w->pc) ||
		!read_word(w, sp + 0xa0, &w->sp))
		return FSN_WALK_NO_MEMORY;
	w->exact = true;
	return 0;
}

static enum fsn_walk_end step_by_row(struct thread_walk *w, const struct fsn_unwind_row *row)
{
	uint64_t cfa, fp = w->fp, pc;

	if (row->how == FSN_UNWIND_DEREF) {
		if (!read_word(w, w->fp - 8ULL * row->cfa, &cfa) || !read_word(w, w->fp, &fp))
			return FSN_WALK_NO_MEMORY;
	} else {
		cfa = (row->how == FSN_UNWIND_FP ? w->fp : w->sp) + 8ULL * row->cfa;
		if (row->fp && !read_word(w, cfa + 8LL * row->fp, &fp))
			return FSN_WALK_NO_MEMORY;
	}
	if (cfa <= w->sp)
		return FSN_WALK_LOST;
	if (!read_word(w, cfa - 8, &pc))
		return FSN_WALK_NO_MEMORY;
	w->pc = pc;
	w->sp = cfa;
	w->fp = fp;
	return 0;
}

static enum fsn_walk_end step_out(struct thread_walk *w, const struct fsn_unwind_row *row)
{
	switch (row ? row->how : FSN_UNWIND_NONE) {
	case FSN_UNWIND_NONE:
		return step_by_fp(w);
	case FSN_UNWIND_SIGNAL:
		return step_signal(w);
	case FSN_UNWIND_END:
		return FSN_WALK_OUTERMOST;
	case FSN_UNWIND_LOST:
		return FSN_WALK_LOST;
	default:
		return step_by_row(w, row);
	}
}

/* Names code at @addr that the process itself has made. */
static void name_made(struct thread_walk *w, uint64_t addr, struct frame_name *to)
{
	const char *name = perf_map_name(&w->s->maps, (pid_t)w->at->pid, addr);

	if (name) {
		free(to->name);
		to->name = to->text = xstrdup(name);
	} else if (addr > 4096) {
		w->s->nameless = (pid_t)w->at->pid;
	}
}

static void add_frame(struct thread_walk *w, struct thread_file *file, uint64_t offset)
{
	struct thread_stacks *s = w->s;
	struct thread_names *n;

	s->natives = array_grow(s->natives, s->native_cnt, sizeof(*s->natives));
	n = &s->natives[s->native_cnt];
	n->of = frame_names(file ? file->elf : NULL, file ? file->path : NULL, offset, s->lines,
		&n->cnt);
	if (!file && !w->crash)
		name_made(w, offset, n->of);
	s->native_cnt++;
	for (size_t i = 0; i < n->cnt && s->cnt < WALK_MAX; i++)
		s->frames[s->cnt++] = (struct thread_frame) { .name = n->of[i].name,
			.text = n->of[i].text, .file = file ? file->path : NULL,
			.offset = offset, .source = n->of[i].source, .line = n->of[i].line,
			.inlined = n->of[i].inlined };
}

static bool is_eval(const struct thread_frame *f)
{
	return python_is_eval(f->name);
}

/* The last frame is at @at; the first one of an interpreter says where that is mapped. */
static void note_python(struct thread_walk *w, struct thread_file *file, uint64_t at)
{
	const struct thread_frame *f = &w->s->frames[w->s->cnt - 1];
	uint64_t addr;

	if (w->python || w->crash || !file || !file->elf || !is_eval(f) ||
		elf_file_offset_to_addr(file->elf, f->offset, &addr))
		return;
	w->python = file;
	w->bias = at - addr;
}

/* One frame, and on to its caller: 0, or how the walk ends. */
static enum fsn_walk_end step(struct thread_walk *w)
{
	uint64_t at = w->pc - !w->exact, offset;
	struct thread_file *file;
	enum fsn_walk_end end;

	if (w->s->cnt >= (w->python ? WALK_MAX : FSN_FRAMES_MAX))
		return FSN_WALK_DEEP;
	if (w->pc < 4096)
		return FSN_WALK_OUTERMOST;
	file = file_at(w->s, w, at, &offset);
	add_frame(w, file, offset);
	note_python(w, file, at);
	w->exact = false;
#if defined(__x86_64__)
	/* Not one of 64 bits, for example. */
	if (file && !file->elf)
		return FSN_WALK_NO_TABLE;
#endif
	end = step_out(w, file ? row_at(&file->rows, offset) : NULL);
	if (end)
		return end;
#if defined(__x86_64__)
	return find_return(w, w->sp - 8) ? 0 : FSN_WALK_LOST;
#else
	return find_return(w, w->sp) ? 0 : FSN_WALK_LOST;
#endif
}

/* --- Python ------------------------------------------------------------------------------------- */

/* @name is the caller's no more. */
static const char *keep_name(struct thread_stacks *s, char **name)
{
	return *array_add(s->names, s->name_cnt) = TAKE_PTR(*name);
}

/* Calls of the interpreter among native frames, and among those of Python: they must agree. */
static bool python_agrees(const struct thread_stacks *s, const struct python_stack *py,
	enum fsn_walk_end end)
{
	size_t native = 0, calls = 0;

	for (size_t i = 0; i < s->cnt; i++)
		native += is_eval(&s->frames[i]);
	for (size_t i = 0; i < py->cnt; i++)
		calls += py->frames[i].first;
	return end == FSN_WALK_OUTERMOST ? native == calls : !py->counted && native <= calls;
}

/*
 * Replaces the native frames of the interpreter by the Python frames that it evaluates. If the two
 * do not match, the native frames are kept.
 */
static void python_merge(struct thread_walk *w, pid_t tid, enum fsn_walk_end end)
{
	_cleanup_python_stack_ struct python_stack py = {};
	struct thread_stacks *s = w->s;
	size_t cnt = 0, at = 0;

	if (python_stack_read((pid_t)w->at->pid, tid, w->python->elf, w->bias, &py) ||
		!python_agrees(s, &py, end))
		return;
	free(s->merged);
	s->merged = xcalloc(s->cnt + py.cnt + 1, sizeof(*s->merged));
	for (size_t i = 0; i < s->cnt && i < FSN_FRAMES_MAX; i++) {
		bool in_python = is_eval(&s->frames[i]) && py.frames[at].name;

		if (!in_python)
			s->merged[cnt++] = s->frames[i];
		while (is_eval(&s->frames[i])) {
			struct python_frame *f = &py.frames[at++];
			const char *name = f->name ? keep_name(s, &f->name) : NULL,
				   *file = name ? keep_name(s, &f->file) : NULL;

			if (in_python)
				s->merged[cnt++] = (struct thread_frame) { .name = name,
					.file = file,
					.is_source = true,
					.line = f->line };
			if (f->first)
				break;
		}
	}
	s->cnt = cnt;
}

/* --- where it runs -------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define SAMPLE_FP PERF_REG_X86_BP
#define SAMPLE_SP PERF_REG_X86_SP
#define SAMPLE_PC PERF_REG_X86_IP
#else
#define SAMPLE_FP PERF_REG_ARM64_X29
#define SAMPLE_SP PERF_REG_ARM64_SP
#define SAMPLE_PC PERF_REG_ARM64_PC
#endif

#define SAMPLE_NS     100000    /* on a CPU, until it is taken */
#define SAMPLE_MS     5         /* to wait for that */
#define SAMPLE_ALL_NS 100000000 /* for those of all threads */
#define SAMPLE_STACK 64512   /* a record has fewer than 64 KiB */
#define SAMPLE_RING  0x20000 /* data pages: a power of two that holds a record */

/* perf_event_open(2), "PERF_RECORD_SAMPLE"; registers in the order of their bits */
struct sample {
	struct perf_event_header header;
	uint64_t abi;
	uint64_t fp, sp, pc;
	uint64_t size;
	char stack[SAMPLE_STACK];
	uint64_t filled;
};

/* Walks from where the thread is that runs. -EBUSY: it had no CPU, or runs code of 32 bits. */
static int walk_sample(struct thread_walk *w, const struct perf_event_mmap_page *page,
	enum fsn_walk_end *ret_end)
{
	const struct sample *sample = (const void *)((const char *)page + page->data_offset);

	if (!__atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) ||
		sample->header.type != PERF_RECORD_SAMPLE || sample->abi != PERF_SAMPLE_REGS_ABI_64 ||
		sample->size != SAMPLE_STACK)
		return -EBUSY;
	w->pc = sample->pc;
	w->sp = sample->sp;
	w->fp = sample->fp;
	w->exact = true;
	w->copy = (struct thread_copy) { sample->sp, sample->stack, sample->filled };
	/* An instruction that the kernel has moved there from its place, for a probe. */
	if (w->at->trampoline && w->pc - w->at->trampoline < (uint64_t)sysconf(_SC_PAGESIZE))
		return -EBUSY;
	while (!*ret_end)
		*ret_end = step(w);
	if (*ret_end == FSN_WALK_NO_MEMORY && sample->filled == SAMPLE_STACK)
		*ret_end = FSN_WALK_DEEP;
	return 0;
}

/* A thread that runs, its event, and the pages with its one sample. */
struct sampled {
	pid_t tid;
	int fd;
	struct perf_event_mmap_page *page;
};

static size_t sample_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE) + SAMPLE_RING;
}

static void sample_done(struct sampled *sampled)
{
	munmap(sampled->page, sample_size());
	close(sampled->fd);
}

static void samples_done(struct thread_stacks *s)
{
	for (size_t i = 0; i < s->sampled_cnt; i++)
		sample_done(&s->sampled[i]);
	free(s->sampled);
	s->sampled = NULL;
	s->sampled_cnt = 0;
}

/* The event is disabled when it has its sample. */
static int sample_begin(pid_t tid, struct sampled *ret_sampled)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = SAMPLE_NS,
		.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = 1ULL << SAMPLE_FP | 1ULL << SAMPLE_SP | 1ULL << SAMPLE_PC,
		.sample_stack_user = SAMPLE_STACK, .wakeup_events = 1, .disabled = 1 };
	_cleanup_close_ int fd =
		(int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	void *page;

	if (fd < 0)
		return errno == ESRCH ? -ESRCH : -EBUSY;
	page = mmap(NULL, sample_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -EBUSY;
	(void)!ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
	*ret_sampled = (struct sampled) { tid, TAKE_FD(fd), page };
	return 0;
}

static size_t samples_missing(const struct thread_stacks *s)
{
	size_t cnt = 0;

	for (size_t i = 0; i < s->sampled_cnt; i++)
		cnt += !__atomic_load_n(&s->sampled[i].page->data_head, __ATOMIC_ACQUIRE);
	return cnt;
}

void thread_stacks_sample(struct thread_stacks *s, const pid_t *tids, size_t cnt)
{
	struct fsn_thread at;

	samples_done(s);
	s->sampled = xcalloc(cnt, sizeof(*s->sampled));
	for (size_t i = 0; i < cnt; i++)
		if (look_at(s, tids[i], &at) == -EBUSY &&
			!sample_begin(tids[i], &s->sampled[s->sampled_cnt]))
			s->sampled_cnt++;
	for (uint64_t ns = SAMPLE_NS; ns < SAMPLE_ALL_NS && samples_missing(s); ns *= 2)
		sleep_ns(ns);
}

static int walk_running(struct thread_walk *w, pid_t tid, enum fsn_walk_end *ret_end)
{
	struct sampled sampled;
	struct pollfd ready = { .events = POLLIN };
	int code;

	for (size_t i = 0; i < w->s->sampled_cnt; i++)
		if (w->s->sampled[i].tid == tid)
			return walk_sample(w, w->s->sampled[i].page, ret_end);
	code = sample_begin(tid, &sampled);
	if (code)
		return code;
	ready.fd = sampled.fd;
	(void)!poll(&ready, 1, SAMPLE_MS);
	(void)!ioctl(sampled.fd, PERF_EVENT_IOC_DISABLE, 0);
	code = walk_sample(w, sampled.page, ret_end);
	sample_done(&sampled);
	return code;
}

pid_t thread_stacks_nameless(const struct thread_stacks *s)
{
	return s->nameless;
}

/* --- the stack of a thread ------------------------------------------------------------------------ */

bool thread_stacks_stays(const struct thread_stacks *s)
{
	struct fsn_thread again = {};

	return !look_at(s, (pid_t)s->at.tid, &again) && again.switches == s->at.switches &&
		again.pc == s->at.pc && again.sp == s->at.sp;
}

int thread_stacks_get(struct thread_stacks *s, pid_t pid, pid_t tid, struct thread_stack *ret_stack)
{
	_cleanup_proc_maps_ struct proc_maps maps = {};
	struct fsn_thread at = {};
	struct thread_walk w = { .s = s, .at = &at, .maps = &maps, .exact = true };
	enum fsn_walk_end end = 0;
	uint64_t looked_ns;
	bool is_deep, runs;
	int code;

	*ret_stack = (struct thread_stack) {};
	/* The BPF program measures from when this thread got its CPU, which other threads may delay. */
	if (clock_ns(CLOCK_MONOTONIC) - s->fresh_ns > FRESH_NS) {
		sleep_ns(1);
		s->fresh_ns = clock_ns(CLOCK_MONOTONIC);
	}
	code = look_at(s, tid, &at);
	looked_ns = clock_ns(CLOCK_MONOTONIC);
	runs = ret_stack->runs = code == -EBUSY;
	if (!code || runs)
		code = proc_maps_read("/proc", pid, &maps, NULL);
	if (code)
		return code;
	at.pid = (unsigned int)pid;
	w.pc = at.pc;
	w.sp = at.sp;
	w.fp = at.fp;
	stack_done(s);
	code = runs ? walk_running(&w, tid, &end) : 0;
	if (code)
		return code;
	while (!end)
		end = step(&w);
	is_deep = s->cnt > FSN_FRAMES_MAX;
	/* The Python frames of one that runs have changed by now. */
	if (w.python && !runs)
		python_merge(&w, tid, end);
	if (is_deep && !s->merged)
		s->cnt = FSN_FRAMES_MAX;
	s->at = at;
	if (!runs && !thread_stacks_stays(s))
		return -EBUSY;
	*ret_stack = (struct thread_stack) { .frames = s->merged ? s->merged : s->frames,
		.cnt = s->cnt,
		.end = is_deep ? FSN_WALK_DEEP : end,
		.runs = runs,
		.python = w.python,
		.since_ns = at.slept_ns ? looked_ns - at.slept_ns : 0,
		.slept_ns = at.slept_ns == FSN_SLEPT_LESS ? 0 : at.slept_ns };
	return 0;
}

/* --- of a process that died ---------------------------------------------------------------------- */

/* Whether the file at @path is what it was at @time_ns, CLOCK_MONOTONIC; its number can be used again. */
static bool is_as_it_was(const char *path, uint64_t time_ns)
{
	uint64_t changed_ns;
	struct stat st;

	if (stat(path, &st))
		return false;
	changed_ns = st.st_ctim.tv_sec * 1000000000ULL + st.st_ctim.tv_nsec;
	return changed_ns <= clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) + time_ns;
}

static void crash_maps(const struct group *g, const struct fsn_crash *c, struct proc_maps *maps)
{
	char path[PATH_MAX];

	maps->maps = xcalloc(FSN_CRASH_MAPS, sizeof(*maps->maps));
	maps->areas = xcalloc(FSN_CRASH_MAPS, sizeof(*maps->areas));
	for (uint32_t i = 0; i < c->map_cnt && i < FSN_CRASH_MAPS; i++) {
		const struct fsn_crash_map *m = &c->map[i];

		if (!m->id.ino || !group_file_path(g, &m->id, path) ||
			!is_as_it_was(path, c->time_ns))
			continue;
		maps->areas[maps->area_cnt++] = (struct proc_area) {
			m->start, m->end, m->offset, maps->cnt };
		maps->maps[maps->cnt++] = (struct proc_map) { .dev_major = m->id.dev,
			.dev_minor = m->id.version,
			.ino = m->id.ino,
			.path = xstrdup(path) };
	}
}

/*
 * A call of a null pointer: no code is there, and the return address is where the call put it. Other
 * code that is not known may have anything there.
 */
static bool step_out_of_nowhere(struct thread_walk *w)
{
	uint64_t offset;
	bool is_fetch = w->crash->flags & FSN_CRASH_HAS_ADDR && w->crash->addr == w->pc;

	if (!is_fetch || proc_maps_at(w->maps, w->pc, &offset))
		return true;
	add_frame(w, NULL, w->pc);
#if defined(__x86_64__)
	w->exact = false;
	w->sp += 8;
	return read_word(w, w->sp - 8, &w->pc) && find_return(w, w->sp - 8) &&
		proc_maps_at(w->maps, w->pc - 1, &offset);
#else
	return false;
#endif
}

struct thread_stack thread_stacks_of_crash(struct thread_stacks *s, const struct group *g,
	const struct fsn_crash *crash)
{
	_cleanup_proc_maps_ struct proc_maps maps = {};
	struct thread_walk w = { .s = s,
		.at = &crash->at,
		.crash = crash,
		.copy = { crash->stack_at, crash->stack, crash->word_cnt * sizeof(*crash->stack) },
		.maps = &maps,
		.pc = crash->at.pc,
		.sp = crash->at.sp,
		.fp = crash->at.fp,
		.exact = true };
	enum fsn_walk_end end = 0;

	stack_done(s);
	crash_maps(g, crash, &maps);
	if (!step_out_of_nowhere(&w))
		end = FSN_WALK_NOWHERE;
	while (!end)
		end = step(&w);
	if (end == FSN_WALK_NO_MEMORY && crash->word_cnt == FSN_CRASH_WORDS)
		end = FSN_WALK_DEEP;
	return (struct thread_stack) { .frames = crash->word_cnt ? s->frames : NULL,
		.cnt = s->cnt,
		.end = end };
}

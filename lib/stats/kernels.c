// SPDX-License-Identifier: BSD-2-Clause
// Which kernels of GPUs were launched: the words that calls had as names.
//
// CUDA's compiler makes two functions of the host for a kernel: one of its name, whose address
// stands for it, and __device_stub__NAME, which that calls to launch it. Until CUDA 12 the stub
// hands on the address; since then a handle, which the driver made of it at the first launch, and
// which only the stub, whose code lies where the launch was made, still knows.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "internal.h"
#include "proc/proc.h"

#define STUB "__device_stub__"
#define PROC "/proc"

/* --- handles ------------------------------------------------------------------------------------- */

static int compare_handles(const void *a, const void *b)
{
	const struct handle *x = a, *y = b;

	if (x->key.tgid != y->key.tgid)
		return x->key.tgid < y->key.tgid ? -1 : 1;
	return x->key.word < y->key.word ? -1 : x->key.word > y->key.word;
}

static void add_handle(struct handles *h, const struct fsn_handle *key, const struct fsn_handle_of *of)
{
	h->handles = array_grow(h->handles, h->cnt, sizeof(*h->handles));
	h->handles[h->cnt] = (struct handle) { *key, *of };
	h->handles[h->cnt++].of.name[FSN_HANDLE_NAME - 1] = '\0';
}

void handles_read(const struct group *g, struct handles *ret_handles)
{
	struct fsn_handle key, last;
	struct fsn_handle_of of;
	bool first = true;
	int fd = group_fd(g, MAPID_HANDLES);

	*ret_handles = (struct handles) {};
	while (!bpf_map_get_next_key(fd, first ? NULL : &last, &key)) {
		first = false;
		last = key;
		if (!bpf_map_lookup_elem(fd, &key, &of) && of.start)
			add_handle(ret_handles, &key, &of);
	}
	if (ret_handles->cnt)
		qsort(ret_handles->handles, ret_handles->cnt, sizeof(struct handle),
			compare_handles);
	for (size_t i = 0; i < ret_handles->cnt && g->write && proc_is_first_ns(); i++) {
		const struct handle *h = &ret_handles->handles[i];

		if (!proc_alive(PROC, (pid_t)h->key.tgid, h->of.start))
			(void)bpf_map_delete_elem(fd, &h->key);
	}
}

void handles_done(struct handles *h)
{
	free(h->handles);
}

static const struct fsn_handle_of *find_handle(
	const struct handles *h, const struct launch *l, uint64_t word)
{
	const struct handle key = { { word, (uint64_t)l->pid }, {} }, *found;

	found = h->cnt ? bsearch(&key, h->handles, h->cnt, sizeof(key), compare_handles) : NULL;
	return found && found->of.start == l->start_ns ? &found->of : NULL;
}

/* --- names --------------------------------------------------------------------------------------- */

/* Of a name that is too long the end is a number that tells it from others that begin so. */
static bool put_name(const char *name, struct fsn_kernel *to)
{
	uint32_t hash = 2166136261U;

	if (strlen(name) < sizeof(to->text)) {
		snprintf(to->text, sizeof(to->text), "%s", name);
		return true;
	}
	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	snprintf(to->text, sizeof(to->text), "%.*s~%08x", (int)sizeof(to->text) - 10, name, hash);
	return true;
}

static bool put_mangled(const char *name, struct fsn_kernel *to)
{
	_cleanup_free_ char *plain = demangle(name, DEMANGLE_NAME);

	return put_name(plain ? plain : name, to);
}

/* "__device_stub__Z3addPfi", or, as clang has it, "space::__device_stub__add". */
static bool put_stub(const char *symbol, struct fsn_kernel *to)
{
	_cleanup_free_ char *outer = demangle(symbol, DEMANGLE_NAME), *inner = NULL;
	const char *whole = outer ? outer : symbol, *stub = strstr(whole, STUB);
	char *text = NULL;

	if (!stub || asprintf(&text, "%.*s_%s", (int)(stub - whole), whole,
			    stub + strlen(STUB)) < 0)
		return false;
	inner = stub == whole ? xstrndup(text, strcspn(text, " ")) : NULL;
	if (inner && demangle_is_mangled(inner)) {
		free(text);
		return put_mangled(inner, to);
	}
	memmove(text + (stub - whole), text + (stub - whole) + 1, strlen(text + (stub - whole)));
	put_name(text, to);
	free(text);
	return true;
}

static const struct kernel_names *kernels_of(struct code_known *known)
{
	if (!known->kernels_read && kernel_names_read(known->elf, &known->kernels, NULL))
		kernel_names_done(&known->kernels);
	known->kernels_read = true;
	return &known->kernels;
}

/* --- ways to find one ------------------------------------------------------------------------------ */

/* The word is the address of the host's function; what has no name is a place all the same. */
static bool by_function(
	struct callers *c, const struct launch *l, uint64_t word, struct fsn_kernel *ret)
{
	const struct kernel_name *kernel;
	const struct elf_func *func;
	struct code_at at;

	if (!callers_code(c, l->pid, l->start_ns, word, &at))
		return false;
	func = at.known ? elf_file_func_at(at.known->elf, at.addr) : NULL;
	if (func && func->addr == at.addr)
		return put_stub(func->names->name, ret) || put_mangled(func->names->name, ret);
	kernel = at.known ? kernel_names_find(kernels_of(at.known), at.addr) : NULL;
	if (kernel)
		return put_mangled(kernel->name, ret);
	put_place(ret->text, sizeof(ret->text), at.file, at.offset);
	return true;
}

/* The code before @from is made for one kernel. */
static bool by_code(const struct launch *l, const struct code_at *at, struct fsn_kernel *ret)
{
	const struct kernel_name *kernel;
	const struct elf_func *func;

	if (!at->known)
		return false;
	func = elf_file_func_at(at->known->elf, at->addr);
	if (func && put_stub(func->names->name, ret))
		return true;
	if (!l->compiled)
		return false;
	kernel = kernel_names_around(at->known->elf, kernels_of(at->known), at->addr);
	return kernel && put_mangled(kernel->name, ret);
}

/* Who has launched it; of code that is not optimised, who has called the helper that did. */
static bool by_caller(struct callers *c, const struct launch *l, struct fsn_kernel *ret)
{
	const unsigned long long *from = l->by.from;
	struct code_at at, outer;

	if (!from[0] || !callers_code(c, l->pid, l->start_ns, from[0] - 1, &at))
		return false;
	if (by_code(l, &at, ret))
		return true;
	return from[1] && callers_code(c, l->pid, l->start_ns, from[1] - 1, &outer) &&
		outer.known && outer.known == at.known &&
		kernel_calls(outer.known->elf, outer.addr + 1, at.addr) &&
		by_code(l, &outer, ret);
}

/* It was asked for by its name, or by a word that stands for it, which may be a handle, too. */
static bool by_handle(struct callers *c, const struct handles *h, const struct launch *l,
	struct fsn_kernel *ret)
{
	uint64_t word = l->by.word;

	for (int step = 0; step < 4; step++) {
		const struct fsn_handle_of *of = find_handle(h, l, word);

		if (!of)
			return step && by_function(c, l, word, ret);
		if (of->cut)
			return put_name(of->name, ret);
		if (!of->word)
			return *of->name && put_mangled(of->name, ret);
		word = of->word;
	}
	return false;
}

bool kernel_name(
	struct callers *c, const struct handles *h, const struct launch *l, struct fsn_kernel *ret)
{
	*ret = (struct fsn_kernel) { .word = l->by.word, .start = l->start_ns };
	return by_function(c, l, l->by.word, ret) || by_caller(c, l, ret) ||
		by_handle(c, h, l, ret);
}

/* --- what GPUs did -------------------------------------------------------------------------------- */

static int compare_gpus(const void *a, const void *b)
{
	const struct stats_gpu *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Processes that have ended are told of, too, as long as there is room for others. */
static void forget_ended(const struct group *g, const struct stats *s)
{
	for (size_t i = 0; i < s->gpu_cnt; i++) {
		unsigned int pid = (unsigned int)s->gpus[i].pid;

		if (!proc_alive(PROC, s->gpus[i].pid, s->gpus[i].said.start))
			(void)bpf_map_delete_elem(group_fd(g, MAPID_GPUS), &pid);
	}
}

void stats_read_gpus(const struct group *g, struct stats *s)
{
	int fd = group_info(g).gpu ? group_map_fd(g, MAPID_GPUS, "GPUs", NULL) : -1;
	unsigned int key, last;

	if (fd < 0)
		return;
	for (bool first = true; !bpf_map_get_next_key(fd, first ? NULL : &last, &key); first = false) {
		s->gpus = array_grow(s->gpus, s->gpu_cnt, sizeof(*s->gpus));
		last = key;
		s->gpus[s->gpu_cnt].pid = (pid_t)key;
		if (bpf_map_lookup_elem(fd, &key, &s->gpus[s->gpu_cnt].said))
			continue;
		s->gpus[s->gpu_cnt++].said.who[FSN_GPU_WHO - 1] = '\0';
	}
	if (s->gpu_cnt)
		qsort(s->gpus, s->gpu_cnt, sizeof(*s->gpus), compare_gpus);
	if (s->gpu_cnt > FSN_GPUS / 2 && g->write && proc_is_first_ns())
		forget_ended(g, s);
}

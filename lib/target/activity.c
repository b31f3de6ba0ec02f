// SPDX-License-Identifier: BSD-2-Clause
// Targets without code of their own: GPU activities, in batches that libfuncsnoop-gpu.so passes to a
// probe, where each record is a call; waits of threads, off the CPU and in the run queue; CPU samples.
#include <limits.h>

#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "preset/preset.h"
#include "shared/gpu.h"
#include "target/kind.h"

#define WORD(n) { .where = PLACE_RECORD, .index = (n), .words = 1 }
#define NUMBER(type, name_, n)                                                   \
	{ .text = type " " name_, .name = (name_),                                \
		.value = { .kind = TYPE_INT, .size = 8 }, .place = WORD(n) }

/* The members of struct fsn_gpu_record. */
static const struct preset_arg args[] = {
	{ .text = "void *name", .name = "name", .value = { .kind = TYPE_POINTER, .size = 8 },
		.place = WORD(0) },
	NUMBER("uint64_t", "ns", 1),
	NUMBER("size_t", "bytes", 2),
	NUMBER("uint64_t", "device", 3),
	NUMBER("uint64_t", "stream", 4),
	NUMBER("uint64_t", "copy", 5),
};

/* The same of ranges, which libfuncsnoop-gpu.so times itself. */
static const struct preset_arg range_args[] = {
	{ .text = "const char *range", .name = FSN_GPU_RANGE,
		.value = { .kind = TYPE_POINTER, .size = 8 }, .place = WORD(0) },
	NUMBER("uint64_t", "ns", 1),
	NUMBER("uint64_t", "self_ns", 2),
	NUMBER("uint64_t", "tid", 3),
};

#define KNOWN(list) { .has_args = true, .args = (struct preset_arg *)(list),             \
	.arg_cnt = ARRAY_SIZE(list), .kernel = 1, .ret_text = "void", .ret = { .kind = TYPE_VOID } }
static const struct preset_func known = KNOWN(args), known_range = KNOWN(range_args);

/* CUDA driver functions that launch kernels; the CUDA runtime calls them. */
static const char *const launch_names[] = { "cuLaunchKernel", "cuLaunchKernel_ptsz",
	"cuLaunchKernelEx", "cuLaunchKernelEx_ptsz", "cuLaunchCooperativeKernel",
	"cuLaunchCooperativeKernel_ptsz", "cuGraphLaunch", "cuGraphLaunch_ptsz" };

#define LAUNCH_LIB "libcuda.so.1"

static const struct preset_func known_launch = { .ret_text = "int",
	.ret = { .kind = TYPE_INT, .size = 4, .is_signed = true } };

struct finding {
	struct targets *targets;
	size_t first; /* index in .targets of the first one found by this lookup */
	const struct request *req;
	const char *text;
	struct pattern pattern;
	size_t hits;
};

static bool is_there(const struct finding *f, const struct object *object, const char *symbol)
{
	for (size_t i = f->first; i < f->targets->cnt; i++)
		if (f->targets->target[i].object == object &&
			!strcmp(f->targets->target[i].symbol, symbol))
			return true;
	return false;
}

static const unsigned int duties[FSN_GPU_DUTY_CNT] = {
#define SECONDS(what, number, seconds) [number] = (seconds),
	FSN_GPU_DUTIES(SECONDS, )
#undef SECONDS
};

int target_gpu_duty(const char *text, uint32_t *ret_seconds, struct err *err)
{
	unsigned int seconds;
	char rest;

	if (sscanf(text, "1/%u%c", &seconds, &rest) == 1)
		for (size_t i = 0; i < FSN_GPU_DUTY_CNT; i++)
			if (duties[i] == seconds) {
				*ret_seconds = seconds;
				return 0;
			}
#define SECONDS(what, number, seconds) " " #seconds
	return err_set(err, -EINVAL, "'%s' is not 1/N with N one of" FSN_GPU_DUTIES(SECONDS, ), text);
#undef SECONDS
}

/*
 * Finds the duty sites of activity @name, by number; those that an older library lacks have no
 * offset.
 */
static void find_duties(const struct usdt_sites *s, const char *name, struct usdt_site *ret_sites)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < s->cnt; i++) {
		const struct usdt_site *site = &s->sites[i];

		if (strcmp(site->provider, FSN_GPU_DUTY_PROVIDER) || strncmp(site->name, name, len))
			continue;
		for (size_t n = 0; n < FSN_GPU_DUTY_CNT; n++)
			if (strtoul(site->name + len, NULL, 10) == duties[n])
				ret_sites[n] = *site;
	}
}

/* Finds the site that enables the recording of launching calls. */
static void find_ask(const struct usdt_sites *s, const char *name, struct usdt_site *ret_site)
{
	for (size_t i = 0; i < s->cnt && !strcmp(name, "kernels"); i++)
		if (!strcmp(s->sites[i].provider, FSN_GPU_ASK_PROVIDER) &&
			!strcmp(s->sites[i].name, FSN_GPU_ASK_LAUNCHES))
			*ret_site = s->sites[i];
}

#define SITE_ASK   (1 + FSN_GPU_DUTY_CNT)
#define SITE_CNT   (SITE_ASK + 1)

/* The event of a batch: its own site, then the sites of its duties by number, and SITE_ASK. */
static const struct event *event_of(struct targets *targets, const struct object *object,
	const struct usdt_sites *s, const struct usdt_site *site)
{
	struct usdt_site sites[SITE_CNT] = { *site };

	find_duties(s, site->name, sites + 1);
	find_ask(s, site->name, &sites[SITE_ASK]);
	return usdt_event(targets, object, sites, ARRAY_SIZE(sites));
}

static void find_in(struct finding *f, const struct object *object)
{
	__cleanup(usdt_sites_done) struct usdt_sites s = {};

	usdt_sites_read(object->elf, &s);
	for (size_t i = 0; i < s.cnt; i++) {
		const struct usdt_site *site = &s.sites[i];
		struct target t = { .request = f->req, .object = object,
			.known = strcmp(site->name, TARGET_GPU_RANGES) ? &known : &known_range,
			.addr = site->addr, .offset = site->offset, .site_offset = site->offset };

		if (strcmp(site->provider, FSN_GPU_PROVIDER) != 0 ||
			!pattern_match(&f->pattern, site->name))
			continue;
		f->hits++;
		t.symbol = targets_text(f->targets, site->name);
		t.name = f->req->name ? f->req->name : t.symbol;
		t.event = event_of(f->targets, object, &s, site);
		if (!is_there(f, object, t.symbol))
			targets_add(f->targets, &t);
	}
}

static int find_request(struct finding *f, const struct objects *objects, struct err *err)
{
	int code = pattern_init(
		&f->pattern, f->req->regex ? PATTERN_REGEX : PATTERN_GLOB, f->text, err);

	for (size_t i = 0; !code && i < objects->cnt; i++)
		find_in(f, objects->object[i]);
	if (code || f->hits)
		return code;
	if (f->req->optional) {
		targets_miss(f->targets, f->req);
		return 0;
	}
	err_set(err, -ENOENT, "no GPU activity '%s' in '%s'", f->text,
		objects->cnt ? objects->object[0]->path : FSN_GPU_LIB);
	return err_hint(err, "use 'gpu:kernels', 'gpu:copies', 'gpu:sets', 'gpu:graphs' or 'gpu:ranges'");
}

static int add_launches(struct finding *f, const struct object *object, struct err *err)
{
	const struct elf_func *funcs;
	size_t cnt;
	int code = elf_file_funcs(object->elf, &funcs, &cnt, err);

	for (size_t i = 0; !code && i < ARRAY_SIZE(launch_names); i++) {
		const char *symbol = launch_names[i];
		const struct elf_name *name =
			elf_file_lookup(object->elf, symbol, strlen(symbol));
		const struct elf_func *func = name ? &funcs[name->func] : NULL;
		struct target t = { .request = f->req, .object = object, .known = &known_launch,
			.symbol = symbol, .name = symbol };

		if (!func || !func->in_code || is_there(f, object, symbol))
			continue;
		f->hits++;
		t.addr = func->addr;
		t.offset = t.site_offset = func->offset;
		targets_add(f->targets, &t);
	}
	return code;
}

/* Searches the named libraries, otherwise the driver's. */
static int find_launches(struct finding *f, struct libfind *finder, const struct objects *named,
	struct err *err)
{
	__cleanup(objects_done) struct objects driver = {};
	int code = 0;

	for (size_t i = 0; !code && i < named->cnt; i++)
		code = add_launches(f, named->object[i], err);
	if (!code && !f->hits)
		code = libfind_get(finder, LAUNCH_LIB, &driver, err);
	for (size_t i = 0; !code && i < driver.cnt; i++)
		code = add_launches(f, driver.object[i], err);
	if (!code && !f->hits)
		code = err_set(err, -ENOENT, "no function that launches kernels in " LAUNCH_LIB);
	return code == -ENOENT
		? err_hint(err,
			"--by stack needs the functions that launch kernels: name " LAUNCH_LIB " with --lib")
		: code;
}

bool target_gpu_library(char path[PATH_MAX])
{
	static const char *const places[] = { "../lib/funcsnoop/", "" };
	char exe[PATH_MAX - 64];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[len > 0 ? len : 0] = '\0';
	for (size_t i = 0; len > 0 && i < ARRAY_SIZE(places); i++) {
		snprintf(path, PATH_MAX, "%.*s%slib" FSN_GPU_LIB ".so",
			(int)(strrchr(exe, '/') + 1 - exe), exe, places[i]);
		if (!access(path, R_OK))
			return true;
	}
	return false;
}

/* Also finds the libraries in processes, which may be in containers with their own files. */
static int find_libs(struct libfind *finder, struct objects *libs, struct err *err)
{
	__cleanup(objects_done) struct objects used = {};
	char own[PATH_MAX];
	int code = target_gpu_library(own) ? libfind_get(finder, own, libs, err) : 0;

	if (code)
		return code;
	code = libfind_get(finder, FSN_GPU_LIB, &used, err);
	for (size_t i = 0; !code && i < used.cnt; i++)
		objects_add(libs, used.object[i]);
	if (code != -ENOENT)
		return code;
	if (!libs->cnt)
		return err_hint(err, "it is part of funcsnoop: name its path with --lib");
	libfind_forgive(finder);
	*err = (struct err) {};
	return 0;
}

static int gpu_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	__cleanup(objects_done) struct objects own = {};
	size_t first = targets->cnt;
	int code = 0;

	/* The files of --lib are those of the other targets, and perhaps a copy of the library. */
	if (!objects->cnt || reqs[0]->implied) {
		code = find_libs(finder, &own, err);
		for (size_t i = 0; !code && i < objects->cnt; i++)
			objects_add(&own, objects->object[i]);
		objects = &own;
	}
	for (size_t i = 0; !code && i < req_cnt; i++) {
		struct finding f = { .targets = targets, .first = first, .req = reqs[i],
			.text = target_name_in(&target_gpu, reqs[i]->func) };

		if (!strcmp(f.text, TARGET_GPU_LAUNCHES))
			code = find_launches(&f, finder, objects, err);
		else
			code = find_request(&f, objects, err);
		pattern_done(&f.pattern);
	}
	return code;
}

bool gpu_asks_kernels(const char *func)
{
	const char *name = target_name_in(&target_gpu, func);

	return name != func && !strcmp(name, "kernels");
}

bool target_gpu_is_kernels(const struct target *t)
{
	return t->kind == &target_gpu && t->event && !strcmp(t->symbol, "kernels");
}

bool target_gpu_is_launch(const struct target *t)
{
	return t->kind == &target_gpu && !t->event;
}

bool target_gpu_is_ranges(const struct target *t)
{
	return t->known == &known_range;
}

/* Returns the site whose probe's presence enables recording for @t, or NULL. */
static const struct event_site *duty_site(const struct draft *draft, const struct target *t)
{
	size_t n = 0;

	while (n < FSN_GPU_DUTY_CNT && (!t->event || duties[n] != draft->duty))
		n++;
	return n < FSN_GPU_DUTY_CNT && t->event->sites[1 + n].offset ? &t->event->sites[1 + n] : NULL;
}

/* Returns the site whose probe enables recording of launching calls, or NULL. */
static const struct event_site *ask_site(const struct draft *draft, const struct target *t)
{
	return draft->launches && t->event && t->event->sites[SITE_ASK].offset
		? &t->event->sites[SITE_ASK]
		: NULL;
}

static void plan_launch(struct plan *plan)
{
	plan->exit = PLAN_EXIT_NONE;
	snprintf(plan->site_why, sizeof(plan->site_why), "the entry of a launch");
	snprintf(plan->exit_why, sizeof(plan->exit_why), "only its stack is recorded");
}

static int gpu_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++) {
		const struct target *t = &draft->targets[i];
		struct plan *plan = &draft->targets[i].plan;

		if (!t->event) {
			plan_launch(plan);
			continue;
		}
		if (draft->duty > 1 && !duty_site(draft, t))
			return err_set(err, -EOPNOTSUPP, "'%s' is of a version without --sample",
				t->object->path);
		if (draft->launches && target_gpu_is_kernels(t) && !ask_site(draft, t))
			return err_set(err, -EOPNOTSUPP, "'%s' is of a version without stacks",
				t->object->path);
		plan->site_emulated = true;
		plan->exit = PLAN_EXIT_RETURN;
		snprintf(plan->site_why, sizeof(plan->site_why), "a probe for %d records",
			FSN_GPU_BATCH);
		snprintf(plan->exit_why, sizeof(plan->exit_why), "%s", t->known == &known ? "the GPU's own times" : "the library's own times");
	}
	return 0;
}

static int gpu_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];
	const struct event_site *more[] = { duty_site(draft, t), ask_site(draft, t) };
	int code;

	/* No source, because it is not a batch. */
	if (!t->event) {
		probes_add(p, t->object_index, ENGINE_GPU, t->site_offset,
			fn | (uint64_t)FSN_SAME << FSN_COOKIE_KIND_SHIFT);
		return 0;
	}
	code = probes_add_event(
		p, t->object_index, ENGINE_GPU, &t->event->sites[0], fn, FSN_SAME);
	for (size_t i = 0; !code && i < ARRAY_SIZE(more); i++)
		if (more[i])
			code = probes_add_event(
				p, t->object_index, ENGINE_GPU, more[i], fn, FSN_SAME);
	return code;
}

const struct target_kind target_gpu = {
	.number = TARGET_GPU,
	.prefix = "gpu",
	.noun = "GPU activity",
	.word = "gpu",
	.is_wait = true,
	.on_gpu = true,
	.find = gpu_find,
	.plan = gpu_plan,
	.link = gpu_link,
	.is_stale = object_is_stale,
};

/* --- waits of threads ----------------------------------------------------------------------- */

static const struct object scheduler = {
	.kind = OBJECT_SCHEDULER,
	.path = "[scheduler]",
	.build_id = "",
	.found_how = "this kernel",
};

static const char *const names[WAIT_CNT] = {
	[WAIT_OFF_CPU] = "off-cpu",
	[WAIT_RUN_QUEUE] = "run-queue",
};

/* In the order of the BPF programs (bpf/wait.bpf.h). */
static const struct preset_arg wait_args[] = {
	{ .text = "const char *instead", .name = "instead",
		.value = { .kind = TYPE_STRING, .size = 8 }, .place = WORD(0) },
	{ .text = "int instead_tid", .name = "instead_tid",
		.value = { .kind = TYPE_INT, .size = 4, .is_signed = true }, .place = WORD(1) },
	{ .text = "const char *waker", .name = "waker",
		.value = { .kind = TYPE_STRING, .size = 8 }, .place = WORD(2) },
	{ .text = "int waker_tid", .name = "waker_tid",
		.value = { .kind = TYPE_INT, .size = 4, .is_signed = true }, .place = WORD(3) },
};

#define WAIT(waits_) \
	{ .has_args = true, .args = wait_args, .arg_cnt = ARRAY_SIZE(wait_args), .ret_text = "void", \
		.ret = { .kind = TYPE_VOID }, .waits = (waits_) }

/* A thread that waits for a CPU is awake. */
static const struct preset_func wait_known[] = {
	[WAIT_OFF_CPU] = WAIT(true),
	[WAIT_RUN_QUEUE] = WAIT(false),
};

static int wait_names(struct lookup *l, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < WAIT_CNT; i++)
		code = lookup_offer(l, names[i], &names[i], err);
	return code;
}

static int wait_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	t->object = &scheduler;
	t->symbol = name;
	t->offset = (const char *const *)what - names;
	t->known = &wait_known[t->offset];
	return 0;
}

static const struct catalogue waits = {
	.none = "threads have no wait",
	.none_in = "",
	.hint = "use 'w:off-cpu' or 'w:run-queue'",
	.names = wait_names,
	.make = wait_make,
};

static int wait_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++) {
		struct target *t = &draft->targets[i];

		event_plan(&t->plan, PLAN_EXIT_RETURN,
			t->offset == WAIT_RUN_QUEUE
				? "the thread wakes up, or loses its CPU while runnable"
				: "the thread is switched out to sleep",
			"the thread has a CPU again");
	}
	return 0;
}

/* Links waits, and samples. */
static int thread_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];

	probes_add(p, objects_find(&draft->objects, t->object),
		t->kind->is_sample ? ENGINE_SAMPLE : ENGINE_WAIT, t->offset, fn);
	return 0;
}

/*
 * BPF programs can only read the cgroup of the current thread, but the woken thread is another one.
 */
static bool wait_lacks_cgroup(const struct target *t)
{
	return t->offset == WAIT_RUN_QUEUE;
}

const struct target_kind target_wait = {
	.number = TARGET_WAIT,
	.prefix = "w",
	.also = { "wait" },
	.noun = "wait",
	.word = "wait",
	.is_wait = true,
	.stacks = STACKS_OF_THREADS,
	.tax = "each switch of every CPU to another thread takes some 200 to 400 ns longer",
	.catalogue = &waits,
	.plan = wait_plan,
	.link = thread_link,
	.lacks_cgroup = wait_lacks_cgroup,
};

/* --- samples of CPUs ------------------------------------------------------------------------ */

#define NAME "samples"

static const struct object processors = {
	.kind = OBJECT_PROCESSORS,
	.path = "[cpu]",
	.build_id = "",
	.found_how = "this machine",
};

static const struct preset_func sample_known = {
	.has_args = true,
	.ret_text = "void",
	.ret = { .kind = TYPE_VOID },
};

static int sample_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	size_t first = targets->cnt;

	for (size_t i = 0; i < req_cnt; i++) {
		struct target t = { .request = reqs[i], .object = &processors, .known = &sample_known,
			.symbol = NAME };

		if (strcmp(target_name_in(&target_sample, reqs[i]->func), NAME) != 0) {
			err_set(err, -ENOENT, "'%s': CPUs have samples", reqs[i]->func);
			return err_hint(err, "did you mean '%s:%s'", target_sample.prefix, NAME);
		}
		t.name = reqs[i]->name ? reqs[i]->name : t.symbol;
		if (targets->cnt == first)
			targets_add(targets, &t);
	}
	return 0;
}

static int sample_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++)
		event_plan(&draft->targets[i].plan, PLAN_EXIT_NONE, "a timer on each CPU",
			"a sample has no end");
	return 0;
}

const struct target_kind target_sample = {
	.number = TARGET_SAMPLE,
	.prefix = "cpu",
	.noun = "sample",
	.word = "sample",
	.is_event = true,
	.is_wait = true,
	.is_sample = true,
	.stacks = STACKS_OF_THREADS,
	.find = sample_find,
	.plan = sample_plan,
	.link = thread_link,
};

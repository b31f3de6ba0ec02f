// SPDX-License-Identifier: BSD-2-Clause
// Functions of programs and libraries: by symbols, with breakpoints in the file's pages.
#include <inttypes.h>

#include "base/util.h"
#include "code/plan.h"
#include "elf/elf_file.h"
#include "internal.h"
#include "preset/preset.h"
#include "proc/proc.h"
#include "shared/layout.h"
#include "target/kind.h"

static bool user_is_c_library(const char *soname);

/* --- targets of tail calls of a draft's functions --------------------------------------------- */

DEFINE_ORDER(compare_funcs, struct follow_func, RISING(plan->addr))

/* Lists the functions of the object of @j with their present numbers. */
static void list_funcs(const struct draft *draft, struct draft_jumps *j)
{
	size_t cnt = 0;

	free(j->follow.funcs);
	j->follow.funcs = xcalloc(draft->target_cnt + 1, sizeof(*j->follow.funcs));
	for (size_t i = 0; i < draft->target_cnt; i++)
		if (draft->targets[i].object == j->object && !draft->targets[i].refused &&
			!draft->targets[i].places)
			j->follow.funcs[cnt++] =
				(struct follow_func) { &draft->targets[i].plan, i,
					false };
	j->follow.func_cnt = cnt;
	qsort(j->follow.funcs, cnt, sizeof(*j->follow.funcs), compare_funcs);
}

static void ask_go(struct elf_file *elf, uint64_t addr, struct plan_request *req)
{
	enum elf_go go = elf_file_go(elf, addr);

	req->go = go == ELF_GO_REGS;
	req->go_unknown = go == ELF_GO_STACK;
}

static void ask_elf(void *arg, struct plan_request *req)
{
	const struct elf_func *func = elf_file_func_at(arg, req->addr);

	ask_go(arg, req->addr, req);
	if (!func || func->addr != req->addr)
		return;
	req->name = func->names[0].name;
	req->size = func->size;
}

static bool has_jumps(const struct follow *f)
{
	return ANY_WHERE(f->func_cnt, i, follow_lost(f, f->funcs[i].plan));
}

static int jumps_find(struct draft *draft, const struct object *object, struct planner *planner,
	const struct plan_rules *rules, struct err *err)
{
	struct draft_jumps *j;
	int code = 0;

	j = array_add(draft->jumps, draft->jumps_cnt);
	*j = (struct draft_jumps) { .object = object };
	list_funcs(draft, j);
	if (!rules->leave_jumps && has_jumps(&j->follow))
		code = follow_find(&j->follow, planner, ask_elf, object->elf, err);
	for (size_t i = 0; !code && i < draft->target_cnt; i++) {
		struct target *f = &draft->targets[i];

		if (f->object != object || f->refused)
			continue;
		follow_explain(&j->follow, &f->plan);
		f->lost_jumps = follow_lost(&j->follow, &f->plan);
		f->forwards = follow_forwards(&j->follow, &f->plan);
	}
	return code;
}

void jumps_number(struct draft *draft)
{
	uint32_t first = draft->probed_cnt;

	for (size_t i = 0; i < draft->jumps_cnt; i++) {
		struct draft_jumps *j = &draft->jumps[i];

		list_funcs(draft, j);
		follow_number(&j->follow, first);
		first += j->follow.place_cnt;
	}
	draft->place_cnt = first - draft->probed_cnt;
}

/* Returns the tail calls of an object's functions. */
static const struct follow *jumps_of(const struct draft *draft, const struct object *object)
{
	static const struct follow none;

	for (size_t i = 0; i < draft->jumps_cnt; i++)
		if (draft->jumps[i].object == object)
			return &draft->jumps[i].follow;
	return &none;
}

void jumps_done(struct draft *draft)
{
	for (size_t i = 0; i < draft->jumps_cnt; i++) {
		follow_done(&draft->jumps[i].follow);
		free(draft->jumps[i].follow.funcs);
	}
	free(draft->jumps);
}

/*
 * Finds processes whose signal handlers abandon the interrupted calls: functions that they can call
 * must not have return probes.
 *
 * The files of such a process are searched for handlers: the probed file itself, the files mapped
 * by processes that map it, and those that a program to be run needs. Files that are loaded later
 * are not found. Files with more than 8 MB of code are not examined, because that takes long. The C
 * library is not examined either; its own handler abandons calls of threads that are cancelled.
 */

#define MAX_CODE (8u << 20)

static const char *const installers[] = { "sigaction", "__sigaction", "signal", "__sysv_signal",
	"bsd_signal", "ssignal" };

/*
 * Other coroutine libraries have their own assembly; these are entered by name. The standard
 * library throws for inline functions of C++, by std::__throw_NAME().
 */
static const char *const leavers[] = { "__cxa_throw", "__cxa_rethrow", "_Unwind_RaiseException",
	"_Unwind_Resume_or_Rethrow", "_Unwind_ForcedUnwind", "swapcontext", "setcontext",
	"jump_fcontext", "ontop_fcontext", "__gnat_raise_exception",
	"ada__exceptions__raise_from_signal_handler",
	"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
	"_ZSt17rethrow_exceptionSt13exception_ptr", "_ZSt16__throw_bad_castv",
	"_ZSt17__throw_bad_allocv", "_ZSt19__throw_logic_errorPKc",
	"_ZSt20__throw_length_errorPKc", "_ZSt20__throw_out_of_rangePKc",
	"_ZSt20__throw_system_errori", "_ZSt21__throw_runtime_errorPKc",
	"_ZSt24__throw_invalid_argumentPKc", "_ZSt24__throw_out_of_range_fmtPKcz",
	"_ZSt25__throw_bad_function_callv", "_ZSt28__throw_bad_array_new_lengthv" };

/* A file that was examined. */
struct seen {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	const char *leaves; /* the function by which a handler of the file abandons calls, or
			       NULL */
};

struct hazards {
	struct seen *seen;
	size_t cnt;
};

void hazards_free(struct hazards *h)
{
	if (h)
		free(h->seen);
	free(h);
}

/* --- one file ------------------------------------------------------------------------------- */

static bool mentions_one(const struct elf_file *elf, const char *const *names, size_t cnt)
{
	return ANY_WHERE(cnt, i, elf_file_mentions(elf, names[i]));
}

/* GOT words and addresses of functions with these names; as many as fit. */
struct places {
	uint64_t words[16], funcs[16];
	struct plan_calls calls;
};

static void places_find(struct places *p, struct elf_file *elf, const struct plan_image *img,
	const char *const *names, size_t cnt)
{
	const struct elf_func *funcs = NULL;
	size_t func_cnt = 0;

	*p = (struct places) { .calls = { p->words, p->funcs, 0, 0 } };
	if (elf_file_funcs(elf, &funcs, &func_cnt, NULL))
		return;
	for (size_t i = 0; i < cnt; i++) {
		const struct elf_name *own = elf_file_lookup(elf, names[i], strlen(names[i]));

		for (size_t k = 0; k < img->slot_cnt && p->calls.word_cnt < ARRAY_SIZE(p->words); k++)
			if (img->slots[k].import && !strcmp(img->slots[k].import, names[i]))
				p->words[p->calls.word_cnt++] = img->slots[k].addr;
		if (own && p->calls.func_cnt < ARRAY_SIZE(p->funcs))
			p->funcs[p->calls.func_cnt++] = funcs[own->func].addr;
	}
}

/* Returns the function by which a handler of @elf abandons calls, or NULL. */
static const char *examine(struct elf_file *elf)
{
	struct places install, leave;
	struct plan_image img;
	size_t bytes = 0;

	if (user_is_c_library(elf_file_info(elf)->soname) || !mentions_one(elf, installers, ARRAY_SIZE(installers)) ||
		!mentions_one(elf, leavers, ARRAY_SIZE(leavers)) ||
		elf_file_code_size(elf) > MAX_CODE || elf_file_image(elf, &img, NULL))
		return NULL;
	for (size_t i = 0; i < img.text_cnt; i++)
		bytes += img.texts[i].size;
	if (bytes > MAX_CODE)
		return NULL;
	places_find(&install, elf, &img, installers, ARRAY_SIZE(installers));
	for (size_t i = 0; i < ARRAY_SIZE(leavers); i++) {
		places_find(&leave, elf, &img, &leavers[i], 1);
		if ((leave.calls.word_cnt || leave.calls.func_cnt) &&
			plan_handler_leaves(&img, &install.calls, &leave.calls))
			return leavers[i];
	}
	return NULL;
}

/* --- files of processes ---------------------------------------------------------------------- */

static const char *examine_mapped(struct hazards *h, pid_t pid, const struct proc_map *map)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	const char *leaves = NULL;
	int fd;

	for (size_t i = 0; i < h->cnt; i++)
		if (h->seen[i].ino == map->ino && h->seen[i].dev_major == map->dev_major &&
			h->seen[i].dev_minor == map->dev_minor)
			return h->seen[i].leaves;
	fd = proc_open_mapped("/proc", pid, map, NULL);
	if (fd >= 0 && !elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL))
		leaves = examine(elf);
	*array_add(h->seen, h->cnt) = (struct seen) { map->dev_major, map->dev_minor, map->ino, leaves };
	return leaves;
}

static void examine_process(
	struct hazards *h, struct procs *procs, pid_t pid, char *why, size_t size)
{
	const struct proc_maps *maps;
	const char *leaves;

	if (procs_maps(procs, pid, &maps, NULL))
		return;
	for (size_t i = 0; !why[0] && i < maps->cnt; i++) {
		leaves = maps->maps[i].exec ? examine_mapped(h, pid, &maps->maps[i]) : NULL;
		if (leaves)
			snprintf(why, size,
				"a signal handler of process %d may leave calls by '%s'", pid,
				leaves);
	}
}

static void examine_processes(struct hazards *h, const struct draft *draft,
	const struct object *object, char *why, size_t size)
{
	const struct elf_info *info = elf_file_info(object->elf);
	const struct mappers_file file = { info->dev, info->ino, object->path };
	struct procs *procs = libfind_procs(draft->finder);
	const pid_t *pids = draft->pids;
	size_t cnt = draft->pid_cnt;

	if (!cnt && procs_pids(procs, &pids, &cnt, NULL))
		return;
	for (size_t i = 0; !why[0] && i < cnt; i++)
		if (pids[i] != getpid() && mappers_has(procs, pids[i], &file, 1) > 0)
			examine_process(h, procs, pids[i], why, size);
}

/* Examines the files that the program to be run needs. */
static void examine_program(const struct draft *draft, char *why, size_t size)
{
	__cleanup(objects_done) struct objects files = {};
	const char *leaves = NULL;

	if (!draft->program || libfind_get(draft->finder, draft->program, &files, NULL))
		return;
	libfind_closure(draft->finder, &files);
	for (size_t i = 0; !leaves && i < files.cnt; i++)
		leaves = files.object[i]->elf ? examine(files.object[i]->elf) : NULL;
	if (leaves)
		snprintf(why, size, "a signal handler of the program may leave calls by '%s'",
			leaves);
}

/* Sets @why to the reason why calls of functions of @object may be left by a signal handler, or "". */
static void hazard_find(struct draft *draft, const struct object *object, char *why, size_t size)
{
	const char *leaves = examine(object->elf);

	why[0] = '\0';
	if (!draft->hazards)
		draft->hazards = xcalloc(1, sizeof(*draft->hazards));
	if (leaves)
		snprintf(why, size, "a signal handler of the file may leave calls by '%s'", leaves);
	if (!why[0])
		examine_processes(draft->hazards, draft, object, why, size);
	if (!why[0])
		examine_program(draft, why, size);
}

/* --- rules for files: which functions may have return probes, and which no probes ----------- */

/* Libraries of glibc, which need only each other. */
static const char *const c_family[] = { "libc.so.", "libm.so.", "libpthread.so.",
	"libdl.so.", "librt.so.", "libutil.so.", "libresolv.so.", "libanl.so.",
	"libmvec.so.", "ld-linux" };

/*
 * Functions that unwind frames, switch stacks, or read frames. Code that asks for a thread's stack
 * scans or copies it. With dlopen, such code may be loaded later. dlsym reads its return address,
 * and can be tail-called.
 */
static const char *const hazards[] = { "_Unwind_*", "__gxx_personality_v0",
	"__gcc_personality_v0", "swapcontext", "makecontext", "setcontext", "sigaltstack",
	"pthread_exit", "pthread_cancel", "thrd_exit", "dlopen", "dlmopen", "dlsym", "dlvsym",
	"backtrace", "mcount", "_mcount", "__fentry__", "pthread_getattr_np",
	"__libc_stack_end" };

/* Decoding takes some 50 ms a MB. */
#define MAX_CODE_BYTES (2u << 20)

/*
 * The first symbol of the code that BoringSSL's and AWS-LC's FIPS modules hash when they are
 * loaded, the latter with a prefix; a hash that differs ends the process.
 */
static const char hashed[] = "BORINGSSL_bcm_text_start";

/* True if a file of this name is one of glibc's libraries. */
static bool user_is_c_library(const char *soname)
{
	return ANY_WHERE(ARRAY_SIZE(c_family), i,
		!strncmp(soname, c_family[i], strlen(c_family[i])));
}

/*
 * Sets *ret_why to the reason why functions of @elf never run with code that unwinds, switches
 * stacks or is loaded later, as a sentence in static storage; or NULL if that is not known. It is
 * known for an executable that needs only the C library family, refers to no hazardous function,
 * and has no instruction that switches stacks.
 *
 * Executables with more than 2 MB of code are not examined. Libraries never qualify, because their
 * users are not known. Fails only as elf_file_image() does.
 */
static int alone_why(struct elf_file *elf, const char **ret_why, struct err *err)
{
	const struct elf_info *info = elf_file_info(elf);
	const struct elf_func *funcs;
	struct plan_image image;
	size_t cnt;
	int code;

	*ret_why = NULL;
	if (!info->executable || info->go)
		return 0;
	for (size_t i = 0; i < info->needed_cnt; i++)
		if (!user_is_c_library(info->needed[i]))
			return 0;
	code = elf_file_funcs(elf, &funcs, &cnt, err);
	if (code)
		return code;
	if (!elf_file_names_known(elf))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(hazards); i++) {
		code = elf_file_names_symbol(elf, hazards[i], err);
		if (code)
			return code < 0 ? code : 0;
	}
	code = elf_file_image(elf, &image, err);
	if (code)
		return code;
	if (plan_stays_on_stack(&image, MAX_CODE_BYTES))
		*ret_why = "safe: the program needs only the C library, and reads no frames";
	return 0;
}

static bool ends_hashed(const struct elf_func *func)
{
	const struct elf_name *n = func->names;
	size_t len = strlen(hashed);

	return ANY_WHERE(func->name_cnt, i,
		n[i].len >= len && !strcmp(n[i].name + n[i].len - len, hashed));
}

/*
 * Sets *ret_why to the reason why no function of @elf can be probed, as a sentence in static
 * storage; or NULL. A breakpoint would change code that the file checks itself. Fails as
 * elf_file_funcs() does.
 */
static int safe_refused_why(struct elf_file *elf, const char **ret_why, struct err *err)
{
	const struct elf_func *funcs;
	size_t cnt;
	int code;

	*ret_why = NULL;
	code = elf_file_funcs(elf, &funcs, &cnt, err);
	if (code)
		return code;
	for (size_t i = 0; i < cnt && !*ret_why; i++)
		if (ends_hashed(&funcs[i]))
			*ret_why =
				"its file has a FIPS module, which hashes its own code and ends the process";
	return 0;
}

/* --- plans ---------------------------------------------------------------------------------- */

#ifdef __aarch64__
#define HOST_ARCH PLAN_ARM64
#else
#define HOST_ARCH PLAN_X86_64
#endif

/* One planner for each file. */
struct planned {
	const struct object *lib;
	struct planner *planner;
	const char *alone_why; /* as in struct plan_request */
	bool examined;          /* .hazard is known */
	char hazard[PLAN_WHY_LEN]; /* why its functions must not have return probes, or "" */
	const char *refused; /* why its functions cannot be probed, or NULL */
};

struct planners {
	struct planned *of;
	size_t cnt;
};

static void planners_done(struct planners *p)
{
	for (size_t i = 0; i < p->cnt; i++)
		planner_free(p->of[i].planner);
	free(p->of);
}

static int planner_of(struct planners *p, const struct object *lib,
	const struct plan_rules *rules, struct planned **ret_planned, struct err *err)
{
	struct plan_image image;
	struct planned new = { .lib = lib };
	int code;

	for (size_t i = 0; i < p->cnt; i++)
		if (p->of[i].lib == lib) {
			*ret_planned = &p->of[i];
			return 0;
		}
	if (elf_file_info(lib->elf)->arch != HOST_ARCH)
		return err_set(err, -ENOEXEC, "'%s' is for another architecture", lib->path);
	code = alone_why(lib->elf, &new.alone_why, err);
	if (!code)
		code = safe_refused_why(lib->elf, &new.refused, err);
	if (!code)
		code = elf_file_image(lib->elf, &image, err);
	if (code)
		return code;
	p->of = xreallocarray(p->of, p->cnt + 1, sizeof(*p->of));
	code = planner_new(&image, rules, &new.planner, err);
	if (code)
		return code;
	p->of[p->cnt] = new;
	*ret_planned = &p->of[p->cnt++];
	return 0;
}

/* Writes the reason of a limit: "called 20,000 times/s". */
static void limit_explain(const struct target *t, char *why, size_t size)
{
	char sample[48] = "";

	if (t->limit == LIMIT_SAMPLED)
		snprintf(sample, sizeof(sample), "one call of %u is timed: ", t->sample);
	snprintf(why, size, "--overhead: %s%" PRIu64 " calls/s", sample, t->calls_per_s);
}

/* Applies the limit of a probed function: drops ends that it excludes, and states the reason. */
static void plan_limit(struct target *t)
{
	size_t len = strlen(t->plan.exit_why);
	char *why = t->plan.exit_why;

	if (t->limit == LIMIT_COUNTED) {
		t->plan.exit = PLAN_EXIT_NONE;
		t->plan.site_is_end = false;
		t->plan.end_cnt = 0;
		limit_explain(t, why, sizeof(t->plan.exit_why));
	} else if (t->limit == LIMIT_SAMPLED && len + 2 < sizeof(t->plan.exit_why)) {
		memcpy(why + len, "; ", 3);
		limit_explain(t, why + len + 2, sizeof(t->plan.exit_why) - len - 2);
	}
}

/* Plans @t again without its return probe if signal handlers abandon the interrupted calls. */
static int plan_for_handlers(struct draft *draft, struct target *t, struct planned *planned,
	const struct plan_request *req, struct err *err)
{
	struct plan_request other = *req;
	char why[PLAN_WHY_LEN - 32];

	if (!planned->examined) {
		hazard_find(draft, t->object, why, sizeof(why));
		planned->examined = true;
		if (why[0])
			snprintf(planned->hazard, sizeof(planned->hazard), "no return probe: %s",
				why);
	}
	if (!planned->hazard[0])
		return 0;
	other.no_return_why = planned->hazard;
	plan_done(&t->plan);
	return planner_plan(planned->planner, &other, &t->plan, err);
}

/* Checks the places of @t after the first one: all can be probed, or none is. */
static int plan_places(struct target *t, struct planner *planner, struct plan_request *req,
	struct err *err)
{
	int code = 0;

	for (size_t i = 1; !code && i < t->place_cnt && !t->plan.refused[0]; i++) {
		struct plan plan;

		req->addr = t->places[i];
		code = planner_plan(planner, req, &plan, err);
		if (code)
			return code;
		memcpy(t->plan.refused, plan.refused, sizeof(plan.refused));
		plan_done(&plan);
	}
	if (!t->plan.refused[0])
		snprintf(t->plan.exit_why, sizeof(t->plan.exit_why),
			"only counted, at its %zu place%s%s", t->place_cnt,
			t->place_cnt == 1 ? "" : "s", t->places_split ? "; may be too low" : "");
	return code;
}

static int plan_one(struct draft *draft, struct target *t, struct planners *planners,
	const struct plan_rules *rules, struct err *err)
{
	struct planned *planned = NULL;
	struct plan_request req = {
		.name = t->symbol,
		.addr = t->addr,
		.size = t->func && !t->inside ? t->func->size : 0,
		.place = t->places,
	};
	int code = planner_of(planners, t->object, rules, &planned, err);

	if (code)
		return code;
	t->refused = planned->refused;
	if (t->limit == LIMIT_LEFT_OUT) {
		limit_explain(t, t->plan.refused, sizeof(t->plan.refused));
		t->refused = t->plan.refused;
	}
	if (t->refused)
		return 0;
	req.stack_args = t->known && preset_func_uses_stack(t->known);
	req.return_why = t->known ? t->known->nothrow_why : NULL;
	req.alone_why = planned->alone_why;
	ask_go(t->object->elf, t->addr, &req);
	code = planner_plan(planned->planner, &req, &t->plan, err);
	if (!code && t->places)
		code = plan_places(t, planned->planner, &req, err);
	if (!code)
		code = planner_prove(planned->planner, &req, &t->plan);
	if (!code && t->plan.exit == PLAN_EXIT_RETURN && rules->exit == PLAN_MODE_AUTO)
		code = plan_for_handlers(draft, t, planned, &req, err);
	if (code)
		return code;
	if (t->plan.refused[0]) {
		t->refused = t->plan.refused;
		return 0;
	}
	plan_limit(t);
	if (elf_file_addr_to_offset(t->object->elf, t->plan.site, &t->site_offset))
		return err_set(err, -ERANGE, "probe site of '%s' is outside the file",
			t->name);
	return 0;
}

static int user_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	__cleanup(planners_done) struct planners planners = {};
	int code = 0;

	for (size_t i = first; !code && i < first + cnt; i++)
		if (!draft->targets[i].refused)
			code = plan_one(draft, &draft->targets[i], &planners, rules, err);
	for (size_t i = 0; !code && i < planners.cnt; i++)
		code = jumps_find(draft, planners.of[i].lib, planners.of[i].planner, rules, err);
	return code;
}

/* --- probes --------------------------------------------------------------------------------- */

static uint64_t cookie_of(uint32_t fn, enum fsn_kind kind)
{
	return fn | (uint64_t)kind << FSN_COOKIE_KIND_SHIFT;
}

/* Adds the code ranges of the function, with which the target of an indirect jump is compared. */
static int add_jump(
	struct probes *p, const struct plan *plan, uint64_t at, uint64_t *cookie)
{
	struct fsn_jump *jump;

	if (p->jump_cnt >= FSN_JUMPS_MAX)
		return -E2BIG;
	*cookie |= (uint64_t)p->jump_cnt << FSN_COOKIE_MORE_SHIFT;
	jump = memset(array_add(p->jumps, p->jump_cnt), 0, sizeof(*jump));
	for (size_t i = 0; i < plan->range_cnt; i++) {
		jump->lo[i] = plan->ranges[i].start - at;
		jump->hi[i] = plan->ranges[i].end - at;
	}
	return 0;
}

/* Adds the places @to, of which one is where @end returns to, with the part @how of its cookie. */
static void add_behind(struct probes *p, const struct plan_end *end, const struct plan *to,
	uint64_t how, uint64_t *cookie)
{
	_Static_assert(FOLLOW_CALLS_MAX <= FSN_JUMP_RANGES, "they fit");
	struct fsn_jump *jump;

	if (p->jump_cnt >= FSN_JUMPS_MAX / 2)
		return;
	jump = array_add(p->jumps, p->jump_cnt);
	*jump = (struct fsn_jump) { .to = how | FSN_JUMP_BEHIND };
	for (size_t i = 0; i < to->end_cnt; i++)
		jump->hi[i] = to->ends[i].addr - end->addr;
	*cookie |= (uint64_t)(p->jump_cnt - 1) << FSN_COOKIE_MORE_SHIFT | 1ULL << FSN_COOKIE_WORD_SHIFT;
}

/* Adds the word that decides whether the tail call @end reaches its tracked target. */
static void add_word(struct probes *p, const struct plan_end *end, uint64_t to, uint64_t *cookie)
{
	/* the rest is for jumps through registers, without which a function has no ends */
	if (p->jump_cnt >= FSN_JUMPS_MAX / 2)
		return;
	*cookie |= (uint64_t)p->jump_cnt << FSN_COOKIE_MORE_SHIFT | 1ULL << FSN_COOKIE_WORD_SHIFT;
	*array_add(p->jumps, p->jump_cnt) = (struct fsn_jump) { .word = end->word - end->addr,
		.target = end->target - end->addr, .to = to };
}

/*
 * Sets the leader of @place if it has none: function @no, or the leader of place @no. Hits of
 * @place count for its leader.
 */
static void lead_place(struct probes *p, uint32_t place, uint32_t no)
{
	uint32_t *leader = &p->places[place - p->place_first].leader;

	if (*leader == UINT32_MAX)
		*leader = no < p->place_first ? no : p->places[no - p->place_first].leader;
}

/* Adds the tracked target of a tail call to its cookie. */
static void add_lead(struct probes *p, uint32_t no, const struct follow *follow,
	const struct plan *plan, const struct plan_end *end, uint64_t *cookie)
{
	struct follow_to to;
	uint64_t how;

	if (!follow_end(follow, plan, end, &to))
		return;
	p->follows = true;
	if (to.no >= p->place_first)
		lead_place(p, to.no, no);
	how = (uint64_t)(to.no + 1) << (FSN_COOKIE_MORE_SHIFT - FSN_COOKIE_WAIT_SHIFT) | to.entry;
	if (to.behind)
		add_behind(p, end, to.behind, how, cookie);
	else if (end->word)
		add_word(p, end, how, cookie);
	else
		*cookie |= how << FSN_COOKIE_WAIT_SHIFT;
}

/* Encodes where an early end finds the return address and the result. */
static uint64_t early_cookie(const struct plan_end *end, bool led)
{
	const struct plan_value *v = &end->value;
	uint64_t words = (uint16_t)(end->place.offset / 8);

	return (uint64_t)v->reg << FSN_COOKIE_REG_SHIFT |
		(uint64_t)v->cut << FSN_COOKIE_CUT_SHIFT |
		(uint64_t)v->is_number << FSN_COOKIE_NUMBER_SHIFT |
		(uint64_t)(v->number & 63) << FSN_COOKIE_BIT_SHIFT |
		(uint64_t)end->place.from_fp << FSN_COOKIE_FP_SHIFT |
		(uint64_t)led << FSN_COOKIE_LED_SHIFT |
		(uint64_t)end->stepped << FSN_COOKIE_STEPS_SHIFT | words << FSN_COOKIE_PLACE_SHIFT;
}

/* The owner of an end: a function, or a place that is the target of tracked tail calls. */
struct ended {
	uint32_t no;
	bool led; /* target of tracked tail calls */
	bool behind; /* instructions after its calls: the owner's own ends */
	const struct plan *plan;
	const struct object *object;
	const struct follow *follow;
};

/* Returns the cookie's bit for entries and returns that are matched by goroutine. */
static uint64_t goroutine_bit(struct probes *p, const struct plan *plan)
{
	p->goroutines |= plan->goroutine;
	return (uint64_t)plan->goroutine << FSN_COOKIE_GO_SHIFT;
}

static int add_end(struct probes *p, uint32_t object, const struct ended *of,
	const struct plan_end *end)
{
	static const enum fsn_kind kinds[] = {
		[PLAN_END_RET] = FSN_END,
		[PLAN_END_JMP] = FSN_END_JUMP,
		[PLAN_END_JCC] = FSN_END_JCC,
		[PLAN_END_JMP_REG] = FSN_END_REG,
		[PLAN_END_EARLY] = FSN_END_EARLY,
		[PLAN_END_EARLY_JCC] = FSN_END_EARLY_JCC,
	};
	uint64_t offset, cookie = cookie_of(of->no, kinds[end->kind]);
	int code = 0;

	if (elf_file_addr_to_offset(of->object->elf, end->addr, &offset))
		return -ERANGE;
	cookie |= (uint64_t)end->cond << FSN_COOKIE_COND_SHIFT;
	cookie |= (uint64_t)end->reg << FSN_COOKIE_REG_SHIFT;
	cookie |= (uint64_t)(end->bit & 63) << FSN_COOKIE_BIT_SHIFT;
	if (end->kind < PLAN_END_EARLY)
		cookie |= (uint64_t)(end->stepped || end->width == 64) << FSN_COOKIE_STEP_SHIFT;
	if (end->kind == PLAN_END_RET)
		cookie |= (uint64_t)of->led << FSN_COOKIE_MORE_SHIFT |
			goroutine_bit(p, of->plan);
	else if (end->kind >= PLAN_END_EARLY)
		cookie |= early_cookie(end, of->led);
	else if (end->kind == PLAN_END_JMP_REG)
		code = add_jump(p, of->plan, end->addr, &cookie);
	else
		add_lead(p, of->no, of->follow, of->plan, end, &cookie);
	if (code)
		return code;
	if (of->no < p->place_first || of->behind)
		probes_add(p, object, ENGINE_END, offset, cookie);
	else
		probes_add_place(p, of->no, object, ENGINE_END, offset, cookie);
	return 0;
}

static int add_ends(struct probes *p, uint32_t object, const struct ended *of)
{
	int code = 0;

	for (size_t i = 0; !code && i < of->plan->end_cnt; i++)
		code = add_end(p, object, of, &of->plan->ends[i]);
	return code;
}

/* Cookie of an entry probe, whose site may be inside the function's frame. */
static uint64_t entry_cookie(uint32_t fn, enum fsn_kind kind, const struct plan *plan)
{
	return cookie_of(fn, kind) | (uint64_t)plan->site_depth / 8 << FSN_COOKIE_PLACE_SHIFT;
}

static int user_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];
	const struct follow *follow = jumps_of(draft, t->object);
	struct ended of = { fn, follow_leads_to(follow, &t->plan), false, &t->plan, t->object, follow };
	bool same = t->plan.site_is_end, alone = draft->entries_alone;
	uint64_t led = (uint64_t)of.led << FSN_COOKIE_MORE_SHIFT, cookie;
	uint32_t object = t->object_index;

	if (alone || (!t->forwards && (same || t->plan.exit == PLAN_EXIT_NONE))) {
		probes_add(p, object, ENGINE_COUNT, t->site_offset,
			entry_cookie(fn, same && !alone ? FSN_SAME : FSN_COUNT, &t->plan));
		for (size_t i = 1; i < t->place_cnt; i++) {
			if (elf_file_addr_to_offset(t->object->elf, t->places[i], &cookie))
				return -ERANGE;
			probes_add(p, object, ENGINE_COUNT, cookie, cookie_of(fn, FSN_COUNT));
		}
	} else if (t->forwards) {
		cookie = cookie_of(fn, FSN_FORWARD);
		add_lead(p, fn, follow, &t->plan, &t->plan.ends[0], &cookie);
		probes_add(p, object, ENGINE_ENTRY, t->site_offset, cookie);
	} else if (t->plan.exit == PLAN_EXIT_RETURN && mode == LINK_SESSION) {
		probes_add(p, object, ENGINE_SESSION, t->site_offset,
			cookie_of(fn, FSN_ENTRY) | led);
	} else if (t->plan.exit == PLAN_EXIT_RETURN) {
		probes_add(p, object, ENGINE_RETURN, t->site_offset,
			cookie_of(fn, FSN_RETURN) | led);
		probes_add(p, object, ENGINE_ENTRY, t->site_offset, cookie_of(fn, FSN_ENTRY));
	} else {
		int code = add_ends(p, object, &of);

		if (code)
			return code;
		probes_add(p, object, ENGINE_ENTRY, t->site_offset,
			entry_cookie(fn, FSN_ENTRY_RET, &t->plan) | goroutine_bit(p, &t->plan));
	}
	return 0;
}

/* Adds the places that are targets of tail calls of an object's functions. */
static int user_link_object(struct probes *p, const struct draft *draft, uint32_t object)
{
	const struct follow *follow = jumps_of(draft, draft->objects.object[object]);
	int code = 0;

	for (size_t i = 0; !code && !draft->entries_alone && i < follow->place_cnt; i++) {
		const struct follow_place *place = &follow->places[i];
		struct ended of = { follow->first + i, true, place->behind, &place->plan,
			draft->objects.object[object], follow };
		uint64_t offset;

		code = add_ends(p, object, &of);
		if (code || !place->entry)
			continue;
		code = elf_file_addr_to_offset(of.object->elf, place->plan.site, &offset);
		if (!code)
			probes_add_place(p, of.no, object, ENGINE_ENTRY, offset,
				entry_cookie(of.no, FSN_ARRIVE, &place->plan));
	}
	return code;
}

/* --- calls in progress ---------------------------------------------------------------------- */

/* The goroutine of a call that is matched by goroutine, or 0. */
static uint64_t goroutine_of(uint64_t where)
{
	return where & FSN_GOROUTINE
		? where % FSN_GOROUTINE / FSN_G_FRAMES << FSN_G_SHIFT
		: 0;
}

/*
 * True if the thread's stack pointer is above the call's place, or the stack does not exist any
 * more.
 */
static bool user_call_is_stale(struct proc_stack *stack, uint64_t where)
{
	if (!stack->has_sp)
		return false;
	if (goroutine_of(where))
		return !proc_stack_has(stack, goroutine_of(where));
	if (!proc_stack_has(stack, where))
		return true;
	return stack->sp > where && stack->sp >= stack->start && stack->sp < stack->end;
}

static bool user_call_is_lost(struct proc_stack *stack, uint64_t where)
{
	uint64_t g = goroutine_of(where);

	return !proc_stack_has(stack, g ? g : where);
}

static int user_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	int code = resolve_functions(finder, objects, reqs, req_cnt, targets, err);

	if (code == -ENOENT || code == -EINVAL)
		requests_hint_notation(
			reqs, req_cnt, code == -EINVAL || libfind_lacks(finder), err);
	return code;
}

const struct target_kind target_user = {
	.number = TARGET_USER,
	.prefix = "p",
	.also = { "uprobe", "uretprobe", "r" },
	.noun = "function",
	.word = "function",
	.in_files = true,
	.has_callers = true,
	.is_priced = true,
	.priced_by = PRICED_BY_SITE,
	.find = user_find,
	.plan = user_plan,
	.link = user_link,
	.link_object = user_link_object,
	.is_stale = object_is_stale,
	.call_is_stale = user_call_is_stale,
	.call_is_lost = user_call_is_lost,
};

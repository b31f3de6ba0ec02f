// SPDX-License-Identifier: BSD-2-Clause
// Processes whose signal handlers leave the calls that they interrupt, so that no function which
// they can call may have a return probe.
//
// The files of such a process are searched for handlers: the probed file itself, the files that
// processes map which map it, and those that a program to be run needs. Files that are loaded
// later are not seen. Files with more than 8 MB of code are not examined, as that takes long, and
// neither is the C library, whose own handler leaves calls of threads that are cancelled.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/plan.h"
#include "elf/elf_file.h"
#include "internal.h"
#include "proc/proc.h"

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
	const char *leaves; /* the function by which a handler of it leaves, or NULL */
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
	for (size_t i = 0; i < cnt; i++)
		if (elf_file_mentions(elf, names[i]))
			return true;
	return false;
}

/* Where functions of these names are called through, and where they are; as many as fit. */
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

/* The function by which a handler of @elf leaves, or NULL. -ENOMEM. */
static int examine(struct elf_file *elf, const char **ret_leaves)
{
	struct places install, leave;
	struct plan_image img;
	uint64_t handler = 0;
	size_t bytes = 0;
	int code = 0;

	*ret_leaves = NULL;
	if (user_is_c_library(elf_file_info(elf)->soname) || !mentions_one(elf, installers, ARRAY_SIZE(installers)) ||
		!mentions_one(elf, leavers, ARRAY_SIZE(leavers)) ||
		elf_file_code_size(elf) > MAX_CODE)
		return 0;
	code = elf_file_image(elf, &img, NULL);
	for (size_t i = 0; !code && i < img.text_cnt; i++)
		bytes += img.texts[i].size;
	if (code || bytes > MAX_CODE)
		return code == -ENOMEM ? code : 0;
	places_find(&install, elf, &img, installers, ARRAY_SIZE(installers));
	for (size_t i = 0; !code && !handler && i < ARRAY_SIZE(leavers); i++) {
		places_find(&leave, elf, &img, &leavers[i], 1);
		if (leave.calls.word_cnt || leave.calls.func_cnt)
			code = plan_handler_leaves(&img, &install.calls, &leave.calls, &handler);
		if (handler)
			*ret_leaves = leavers[i];
	}
	return code;
}

/* --- files of processes ---------------------------------------------------------------------- */

static void remember(struct hazards *h, const struct proc_map *map, const char *leaves)
{
	h->seen = array_grow(h->seen, h->cnt, sizeof(*h->seen));
	h->seen[h->cnt++] = (struct seen) { map->dev_major, map->dev_minor, map->ino, leaves };
}

static int examine_mapped(
	struct hazards *h, pid_t pid, const struct proc_map *map, const char **ret_leaves)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	int fd, code = 0;

	*ret_leaves = NULL;
	for (size_t i = 0; i < h->cnt; i++)
		if (h->seen[i].ino == map->ino && h->seen[i].dev_major == map->dev_major &&
			h->seen[i].dev_minor == map->dev_minor) {
			*ret_leaves = h->seen[i].leaves;
			return 0;
		}
	fd = proc_open_mapped("/proc", pid, map, NULL);
	if (fd >= 0 && !elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL))
		code = examine(elf, ret_leaves);
	if (!code)
		remember(h, map, *ret_leaves);
	return code;
}

static int examine_process(
	struct hazards *h, struct procs *procs, pid_t pid, char *why, size_t size)
{
	const struct proc_maps *maps;
	const char *leaves;
	int code = 0;

	if (procs_maps(procs, pid, &maps, NULL))
		return 0;
	for (size_t i = 0; !code && !why[0] && i < maps->cnt; i++) {
		if (!maps->maps[i].exec)
			continue;
		code = examine_mapped(h, pid, &maps->maps[i], &leaves);
		if (!code && leaves)
			snprintf(why, size,
				"a signal handler of process %d may leave calls by '%s'", pid,
				leaves);
	}
	return code;
}

static int examine_processes(struct hazards *h, const struct draft *draft,
	const struct object *object, char *why, size_t size)
{
	const struct elf_info *info = elf_file_info(object->elf);
	const struct mappers_file file = { info->dev, info->ino, object->path };
	struct procs *procs = libfind_procs(draft->finder);
	const pid_t *pids = draft->pids;
	size_t cnt = draft->pid_cnt;
	int code = 0;

	if (!cnt && procs_pids(procs, &pids, &cnt, NULL))
		return 0;
	for (size_t i = 0; !code && !why[0] && i < cnt; i++)
		if (pids[i] != getpid() && mappers_has(procs, pids[i], &file, 1) > 0)
			code = examine_process(h, procs, pids[i], why, size);
	return code;
}

/* Examines the files that a program needs which is to be run. */
static int examine_program(const struct draft *draft, char *why, size_t size)
{
	__cleanup(objects_done) struct objects files = {};
	const char *leaves = NULL;
	int code = 0;

	if (!draft->program || libfind_get(draft->finder, draft->program, &files, NULL))
		return 0;
	libfind_closure(draft->finder, &files);
	for (size_t i = 0; !code && !leaves && i < files.cnt; i++)
		if (files.object[i]->elf)
			code = examine(files.object[i]->elf, &leaves);
	if (leaves)
		snprintf(why, size, "a signal handler of the program may leave calls by '%s'",
			leaves);
	return code;
}

int hazard_find(struct draft *draft, const struct object *object, char *why, size_t size)
{
	const char *leaves;
	int code;

	why[0] = '\0';
	if (!draft->hazards)
		draft->hazards = xcalloc(1, sizeof(*draft->hazards));
	code = examine(object->elf, &leaves);
	if (leaves)
		snprintf(why, size, "a signal handler of the file may leave calls by '%s'", leaves);
	if (!code && !why[0])
		code = examine_processes(draft->hazards, draft, object, why, size);
	if (!code && !why[0])
		code = examine_program(draft, why, size);
	return code;
}

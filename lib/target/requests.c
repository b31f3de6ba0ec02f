// SPDX-License-Identifier: BSD-2-Clause
// Functions and libraries that a draft is asked for.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "internal.h"

/* --- libraries ------------------------------------------------------------------------------ */

int libs_find(struct objects *libs, struct libfind *finder, const char *const *names,
	size_t cnt, enum libs_needed needed, struct err *err)
{
	for (size_t i = 0; i < cnt; i++) {
		__cleanup(objects_done) struct objects found = {};
		bool last = i + 1 == cnt;
		int code;

		code = libfind_get(finder, names[i], &found, err);
		if (code == -ENOENT && (needed == LIBS_ANY ||
					       (needed == LIBS_ONE && (libs->cnt || !last)))) {
			libfind_forgive(finder);
			continue;
		}
		if (code)
			return code;
		for (size_t k = 0; k < found.cnt; k++)
			if (objects_add(libs, found.object[k]))
				return err_sys(err, -ENOMEM, "cannot list libraries");
	}
	return 0;
}

/* Enough to tell; a program that calls any of a library's functions has a few of these. */
#define NAMES_MAX 4096

/* The program of a process by its path in there; the size of what readlink(2) gave. */
static ssize_t program_path(pid_t pid, char *buf, size_t size)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	len = readlink(link, buf, size - 1);
	if (len > 0)
		buf[len] = '\0';
	return len;
}

static bool defines_one(const struct object *file, const struct preset_group *preset)
{
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(file->elf, &funcs, &cnt, NULL))
		return false;
	for (size_t i = 0; i < preset->func_cnt && i < NAMES_MAX; i++) {
		const char *symbol = preset->funcs[i].symbol;

		if (elf_file_lookup(file->elf, symbol, strlen(symbol)))
			return true;
	}
	return false;
}

void requests_hint_static(
	struct libfind *finder, const struct draft_opts *opts, struct err *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; opts->preset && i < opts->pid_cnt; i++) {
		__cleanup(objects_done) struct objects found = {};

		if (program_path(opts->pids[i], path, sizeof(path)) <= 0 ||
			libfind_get(finder, path, &found, NULL) ||
			!defines_one(found.object[0], opts->preset))
			continue;
		err_hint(err, "the program has it linked in: --lib %s", path);
		return;
	}
}

/* --- functions ------------------------------------------------------------------------------ */

void requests_done(struct requests *r)
{
	for (size_t i = 0; i < r->own_cnt; i++) {
		objects_done(r->own[i]);
		free(r->own[i]);
	}
	free(r->own);
	free(r->req);
}

static void request_add(struct requests *r, const struct request *req)
{
	r->req = array_grow(r->req, r->cnt, sizeof(*r->req));
	r->req[r->cnt++] = *req;
}

/* Libraries for one request; they live as long as the requests. */
static struct objects *own_libs(struct requests *r)
{
	struct objects *libs = xcalloc(1, sizeof(*libs));

	r->own = array_grow(r->own, r->own_cnt, sizeof(*r->own));
	return r->own[r->own_cnt++] = libs;
}

/* Asks for one function of a preset. One whose own library is not there is left out. */
static int request_preset(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, const struct preset_func *pf, struct err *err)
{
	struct request req = {
		.func = pf->symbol,
		.name = pf->name,
		.literal = !pf->is_target,
		.optional = opts->lenient || pf->optional,
		.known = pf,
	};
	struct objects *libs;
	int code;

	if (!pf->lib_cnt || opts->lib_cnt) {
		request_add(r, &req);
		return 0;
	}
	libs = own_libs(r);
	code = libs_find(libs, finder, pf->libs, pf->lib_cnt, req.optional ? LIBS_ANY : LIBS_ALL,
		err);
	if (code || !libs->cnt)
		return code;
	req.objects = libs;
	request_add(r, &req);
	return 0;
}

/* The functions of the preset that one FUNCTION argument means. */
static int choose_preset(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, const char *text, struct err *err)
{
	const struct preset_group *group = opts->preset;
	_cleanup_pattern_ struct pattern pattern = {};
	size_t before = r->cnt;
	struct suggest near;
	char hint[ERR_HINT_LEN];
	int code;

	code = pattern_init(&pattern, opts->regex ? PATTERN_REGEX : PATTERN_GLOB, text, err);
	if (code)
		return code;
	suggest_init(&near, text);
	for (size_t i = 0; i < group->func_cnt; i++) {
		const struct preset_func *pf = &group->funcs[i];

		suggest_offer(&near, pf->name, NULL);
		if (!pattern_match(&pattern, pf->name) && !pattern_match(&pattern, pf->symbol))
			continue;
		code = request_preset(r, finder, opts, pf, err);
		if (code)
			return code;
		if (!opts->regex && !pattern_is_glob(text) && r->cnt > before)
			r->req[r->cnt - 1].optional = false;
	}
	if (r->cnt > before)
		return 0;
	err_set(err, -ENOENT, "no function '%s' in preset %s", text, group->name);
	if (suggest_text(&near, hint, sizeof(hint)))
		err_hint(err, "%s", hint);
	return -ENOENT;
}

/* With kernels that GPUs run those that launch them, which have no name of a user's. */
static void request_launches(struct requests *r)
{
	static const struct request launches = { .func = "gpu:" TARGET_GPU_LAUNCHES };

	for (size_t i = 0; i < r->cnt; i++)
		if (!r->req[i].literal && gpu_asks_kernels(r->req[i].func)) {
			request_add(r, &launches);
			return;
		}
}

int requests_make(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < opts->function_cnt; i++) {
		struct request req = { .func = opts->functions[i], .regex = opts->regex };

		if (opts->preset)
			code = choose_preset(r, finder, opts, opts->functions[i], err);
		else
			request_add(r, &req);
	}
	if (opts->preset && !opts->function_cnt)
		for (size_t i = 0; !code && i < opts->preset->func_cnt; i++)
			code = request_preset(r, finder, opts, &opts->preset->funcs[i], err);
	if (!code && opts->launches)
		request_launches(r);
	return code;
}

// SPDX-License-Identifier: BSD-2-Clause
// Functions and libraries that a draft is asked for.
#include <errno.h>
#include <string.h>

#include "base/pattern.h"
#include "base/suggest.h"
#include "target/requests.h"

/* --- libraries ------------------------------------------------------------------------------ */

void objects_done(struct objects *l)
{
	free(l->lib);
}

int objects_add(struct objects *l, const struct object *lib, struct err *err)
{
	const struct object **more;

	for (size_t i = 0; i < l->cnt; i++)
		if (l->lib[i] == lib)
			return 0;
	more = array_grow(l->lib, l->cnt, sizeof(*more));
	if (!more)
		return err_sys(err, -ENOMEM, "cannot list libraries");
	l->lib = more;
	l->lib[l->cnt++] = lib;
	return 0;
}

int objects_find(struct objects *l, struct libfind *finder, const char *const *names, size_t cnt,
	enum libs_needed needed, struct err *err)
{
	for (size_t i = 0; i < cnt; i++) {
		_cleanup_free_ const struct object **found = NULL;
		size_t found_cnt;
		bool last = i + 1 == cnt;
		int code;

		code = libfind_get(finder, names[i], &found, &found_cnt, err);
		if (code == -ENOENT && (needed == LIBS_ANY ||
					       (needed == LIBS_ONE && (l->cnt || !last))))
			continue;
		for (size_t k = 0; !code && k < found_cnt; k++)
			code = objects_add(l, found[k], err);
		if (code)
			return code;
	}
	return 0;
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
	free(r->preset);
}

static int request_add(struct requests *r, const struct resolve_req *req,
	const struct preset_func *preset, struct err *err)
{
	const struct preset_func **presets;
	struct resolve_req *reqs;

	reqs = array_grow(r->req, r->cnt, sizeof(*reqs));
	if (reqs)
		r->req = reqs;
	presets = array_grow(r->preset, r->cnt, sizeof(*presets));
	if (presets)
		r->preset = presets;
	if (!reqs || !presets)
		return err_sys(err, -ENOMEM, "cannot list functions");
	r->req[r->cnt] = *req;
	r->preset[r->cnt++] = preset;
	return 0;
}

/* Libraries for one request; they live as long as the requests. */
static struct objects *own_libs(struct requests *r)
{
	struct objects **more = array_grow(r->own, r->own_cnt, sizeof(*more));
	struct objects *libs = calloc(1, sizeof(*libs));

	if (more)
		r->own = more;
	if (!more || !libs) {
		free(libs);
		return NULL;
	}
	r->own[r->own_cnt++] = libs;
	return libs;
}

/* Asks for one function of a preset. One whose own library is not there is left out. */
static int request_preset(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, const struct preset_func *pf, struct err *err)
{
	struct resolve_req req = {
		.func = pf->symbol,
		.name = pf->name,
		.literal = true,
		.optional = opts->lenient || pf->optional,
	};
	struct objects *libs;
	int code;

	if (!pf->lib_cnt || opts->lib_cnt)
		return request_add(r, &req, pf, err);
	libs = own_libs(r);
	if (!libs)
		return err_sys(err, -ENOMEM, "cannot list libraries");
	code = objects_find(libs, finder, pf->libs, pf->lib_cnt, req.optional ? LIBS_ANY : LIBS_ALL,
		err);
	if (code || !libs->cnt)
		return code;
	req.libs = libs->lib;
	req.lib_cnt = libs->cnt;
	return request_add(r, &req, pf, err);
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

int requests_make(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < opts->function_cnt; i++) {
		struct resolve_req req = { .func = opts->functions[i], .regex = opts->regex };

		code = opts->preset ? choose_preset(r, finder, opts, opts->functions[i], err) :
				      request_add(r, &req, NULL, err);
	}
	if (opts->preset && !opts->function_cnt)
		for (size_t i = 0; !code && i < opts->preset->func_cnt; i++)
			code = request_preset(r, finder, opts, &opts->preset->funcs[i], err);
	return code;
}

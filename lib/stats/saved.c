// SPDX-License-Identifier: BSD-2-Clause
// Saved documents of `stats --json`.
#include "stats/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_read.h"
#include "group/stacks.h"

#define SAVED_MAX (512U << 20) /* bytes; a million functions take less */

/* --- reading -------------------------------------------------------------------------------- */

DEFINE_CLEANUP(object, struct json_object *, json_object_put)

/* A file, or a pipe (`--diff <(...)`), into memory. */
static int read_all(const char *path, char **ret_text, size_t *ret_len, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int code;

	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	code = file_read(fd, SAVED_MAX, ret_text, ret_len);
	if (code == -EFBIG)
		return err_set(err, code, "'%s' is too big", path);
	return code ? err_sys(err, code, "cannot read '%s'", path) : 0;
}

static const char *str_of(struct json_object *obj, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(obj, key, &value) ||
		!json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

static int figures_read(struct json_object *obj, enum figure_use use, struct figures *ret)
{
	struct json_object *value;

	for (enum figure_id id = 0; id < FIGURE_CNT; id++) {
		if (!figures[id].place[use].at ||
			!json_object_object_get_ex(obj, figures[id].key, &value) || !value)
			continue;
		if (!json_object_is_type(value, json_type_int) ||
			json_object_get_int64(value) < 0)
			return -EINVAL;
		figure_set(ret, id, true, json_object_get_uint64(value));
	}
	return 0;
}

/* As stacks_names() has its text. */
static bool put_frame(FILE *f, struct json_object *frame)
{
	const char *name = str_of(frame, "name"), *source = str_of(frame, "source");
	const char *base = source ? strrchr(source, '/') : NULL;
	struct json_object *value;

	if (!name)
		return false;
	/* An empty one would end the stack. */
	fputs(*name ? name : "?", f);
	if (source && json_object_object_get_ex(frame, "line", &value) && value)
		fprintf(f, " (%s:%s)", base ? base + 1 : source, json_object_get_string(value));
	if (json_object_object_get_ex(frame, "inlined", &value) && json_object_get_boolean(value))
		fputs("_[i]", f);
	fputc('\0', f);
	return true;
}

/* "frames":[...],"end":"outermost" of a stack; nothing where they are not known. */
static int frames_of(struct json_object *obj, struct saved_part *part)
{
	const char *end = str_of(obj, "end"), *cut = end ? stack_cut_named(end) : NULL;
	struct json_object *list;
	bool good = true;
	size_t size;
	FILE *f;

	if (!json_object_object_get_ex(obj, "frames", &list) ||
		!json_object_is_type(list, json_type_array))
		return 0;
	f = xmemstream(&part->stack, &size);
	if (cut)
		fwrite(cut, 1, strlen(cut) + 1, f);
	for (size_t i = json_object_array_length(list); good && i--;)
		good = put_frame(f, json_object_array_get_idx(list, i));
	fputc('\0', f);
	xmemstream_end(f);
	return good ? 0 : -EINVAL;
}

/* "kind":{"value":1,"name":"cudaMemcpyHostToDevice"}, or null: it has no such argument. */
static int part_of(const char *key, struct json_object *obj, struct saved_row *row)
{
	struct saved_part *part = &row->part[row->part_cnt];
	struct json_object *value;
	const char *name;

	if (!obj || row->part_cnt == FSN_KEYS)
		return obj ? -EINVAL : 0;
	if (!json_object_is_type(obj, json_type_object))
		return -EINVAL;
	name = str_of(obj, "name");
	row->part_cnt++;
	part->key = xstrdup(key);
	part->value = xstrdup(json_object_object_get_ex(obj, "value", &value) && value
			? json_object_get_string(value)
			: "?");
	part->name = name ? xstrdup(name) : NULL;
	return frames_of(obj, part);
}

static int sums_of(struct json_object *obj, struct saved_row *row)
{
	struct json_object *sums;

	if (!json_object_object_get_ex(obj, "sums", &sums) || !sums)
		return 0;
	if (!json_object_is_type(sums, json_type_object))
		return -EINVAL;
	json_object_object_foreach(sums, name, value)
	{
		if (!value)
			continue;
		if (!*name || !json_object_is_type(value, json_type_int))
			return -EINVAL;
		row->amount += json_object_get_double(value);
		row->summed = true;
	}
	return 0;
}

static int row_of(struct json_object *obj, struct saved_row *row)
{
	struct json_object *key;
	struct figures one = {};
	int code;

	if (!json_object_is_type(obj, json_type_object))
		return -EINVAL;
	code = figures_read(obj, USE_ROW_DOCUMENT, &one);
	saved_row_add(&row->figures, &one);
	code = code ? code : sums_of(obj, row);
	if (code || !json_object_object_get_ex(obj, "key", &key) || !key)
		return code;
	if (!json_object_is_type(key, json_type_object))
		return -EINVAL;
	json_object_object_foreach(key, name, part)
	{
		code = part_of(name, part, row);
		if (code)
			return code;
	}
	return 0;
}

static int rows_of(struct json_object *obj, struct saved_func *func)
{
	struct json_object *list;
	size_t cnt;
	int code = 0;

	if (!json_object_object_get_ex(obj, "rows", &list) || !list)
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return -EINVAL;
	cnt = json_object_array_length(list);
	func->rows = xcalloc(cnt + 1, sizeof(*func->rows));
	while (!code && func->row_cnt < cnt) {
		size_t i = func->row_cnt++;

		code = row_of(json_object_array_get_idx(list, i), &func->rows[i]);
	}
	return code;
}

static int func_of(struct json_object *obj, struct saved_func *func)
{
	const char *name = str_of(obj, "name"), *library = str_of(obj, "library");
	int code;

	if (!json_object_is_type(obj, json_type_object) || !name)
		return -EINVAL;
	code = figures_read(obj, USE_SAVED, &func->figures);
	if (!code)
		code = rows_of(obj, func);
	if (code)
		return code;
	func->name = xstrdup(name);
	func->library = library ? xstrdup(library) : NULL;
	return 0;
}

static int compare_funcs(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	if (by_name)
		return by_name;
	return strcmp(x->library ? x->library : "", y->library ? y->library : "");
}

static int group_of(struct json_object *obj, struct saved_group *group)
{
	struct json_object *list;
	const char *name = str_of(obj, "group"), *since = str_of(obj, "since");
	size_t cnt;
	int code;

	if (!json_object_is_type(obj, json_type_object) || !name ||
		!json_object_object_get_ex(obj, "functions", &list) ||
		!json_object_is_type(list, json_type_array))
		return -EINVAL;
	cnt = json_object_array_length(list);
	group->name = xstrdup(name);
	group->since = xstrdup(since ? since : "");
	group->funcs = xcalloc(cnt + 1, sizeof(*group->funcs));
	for (size_t i = 0; i < cnt; i++) {
		group->func_cnt++;
		code = func_of(json_object_array_get_idx(list, i), &group->funcs[i]);
		if (code)
			return code;
	}
	qsort(group->funcs, cnt, sizeof(*group->funcs), compare_funcs);
	return 0;
}

static int parse(struct saved *saved, const char *text, size_t len)
{
	__cleanup(cleanup_object) struct json_object *root = NULL;
	struct json_object *groups;
	struct json_end end;
	size_t cnt;
	int code;

	json_read(text, len, JSON_TOKENER_DEFAULT_DEPTH, &root, &end);
	groups = root;
	/* Before version 1 a document was the array. */
	if (root && json_object_is_type(root, json_type_object))
		groups = json_object_object_get(root, "groups");
	if (!groups || !json_object_is_type(groups, json_type_array))
		return -EINVAL;
	cnt = json_object_array_length(groups);
	saved->groups = xcalloc(cnt + 1, sizeof(*saved->groups));
	for (size_t i = 0; i < cnt; i++) {
		saved->cnt++;
		code = group_of(json_object_array_get_idx(groups, i), &saved->groups[i]);
		if (code)
			return code;
	}
	return 0;
}

static int read_text(
	const char *path, const char *text, size_t len, struct saved **ret_saved, struct err *err)
{
	_cleanup_saved_ struct saved *saved = xcalloc(1, sizeof(*saved));
	int code;

	/* The end of a document is a line's end, which a tokener in strict mode takes. */
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	code = parse(saved, text, len);
	if (code == -EINVAL) {
		err_set(err, code, "'%s' is no document of 'funcsnoop stats --json'",
			path);
		return err_hint(err, "'funcsnoop stats --save FILE' writes one");
	}
	if (code)
		return err_sys(err, code, "cannot read '%s'", path);
	*ret_saved = TAKE_PTR(saved);
	return 0;
}

int saved_read(const char *path, struct saved **ret_saved, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int code = read_all(path, &text, &len, err);

	return code ? code : read_text(path, text, len, ret_saved, err);
}

/* Where the next document begins: what lies in one is indented. */
static size_t document_len(const char *text, size_t len)
{
	const char *at = text;

	while ((at = memchr(at, '\n', text + len - at)))
		if (++at < text + len && (*at == '[' || *at == '{'))
			return at - text;
	return len;
}

int saved_read_all(const char *path, struct saved ***ret_documents, size_t *ret_cnt,
	struct err *err)
{
	_cleanup_free_ char *text = NULL;
	struct saved **documents = NULL;
	size_t len = 0, cnt = 0;
	int code = read_all(path, &text, &len, err);

	for (size_t at = 0, one; !code && (at < len || !cnt); at += one) {
		documents = array_grow(documents, cnt, sizeof(*documents));
		one = document_len(text + at, len - at);
		code = read_text(path, text + at, one, &documents[cnt], err);
		cnt += !code;
	}
	if (!code) {
		*ret_documents = documents;
		*ret_cnt = cnt;
		return 0;
	}
	while (cnt)
		saved_free(documents[--cnt]);
	free(documents);
	return code;
}

void saved_func_done(struct saved_func *func)
{
	for (size_t i = 0; i < func->row_cnt; i++) {
		const struct saved_row *row = &func->rows[i];

		for (size_t k = 0; k < row->part_cnt; k++) {
			free(row->part[k].key);
			free(row->part[k].value);
			free(row->part[k].name);
			free(row->part[k].stack);
		}
	}
	free(func->rows);
	free(func->name);
	free(func->library);
}

void saved_free(struct saved *saved)
{
	if (!saved)
		return;
	for (size_t i = 0; i < saved->cnt; i++) {
		struct saved_group *group = &saved->groups[i];

		for (size_t k = 0; k < group->func_cnt; k++)
			saved_func_done(&group->funcs[k]);
		free(group->funcs);
		free(group->name);
		free(group->since);
	}
	free(saved->groups);
	free(saved);
}

void saved_row_add(struct figures *to, const struct figures *row)
{
	bool several = figure_known(to, FIGURE_CALLS);
	uint64_t returns;

	for (enum figure_id id = 0; id < FIGURE_CNT; id++) {
		uint64_t has = figure_or_0(to, id), more = figure_or_0(row, id);

		if (!figures[id].place[USE_ROW_DOCUMENT].at || !figure_known(row, id))
			continue;
		/* Of several rows together no percentile is known. */
		if (FIGURE_BIT(id) & FIGURE_SPREAD && several) {
			to->known &= ~FIGURE_BIT(id);
			continue;
		}
		if (id == FIGURE_MAX)
			figure_set(to, id, true, has > more ? has : more);
		else
			figure_set(to, id, true, has + more);
	}
	returns = figure_or_0(to, FIGURE_RETURNS);
	figure_set(to, FIGURE_AVG, returns && figure_known(to, FIGURE_TOTAL),
		returns ? figure_or_0(to, FIGURE_TOTAL) / returns : 0);
}

const struct saved_part *saved_part_find(const struct saved_row *row, const char *key)
{
	for (size_t i = 0; i < row->part_cnt; i++)
		if (!strcmp(row->part[i].key, key))
			return &row->part[i];
	return NULL;
}

const struct saved_group *saved_group_find(
	const struct saved *saved, const char *name, bool sole)
{
	for (size_t i = 0; i < saved->cnt; i++)
		if (!strcmp(saved->groups[i].name, name))
			return &saved->groups[i];
	return sole && saved->cnt == 1 ? &saved->groups[0] : NULL;
}

const struct saved_func *saved_func_find(
	const struct saved_group *group, const char *name, const char *library)
{
	const struct saved_func *funcs = group->funcs;
	size_t first = FIRST_WHERE(
		group->func_cnt, i, strcmp(funcs[i].name, name) >= 0);
	size_t at = first;

	for (; at < group->func_cnt && !strcmp(funcs[at].name, name); at++)
		if (library && funcs[at].library && !strcmp(funcs[at].library, library))
			return &funcs[at];
	return at - first == 1 ? &funcs[first] : NULL;
}

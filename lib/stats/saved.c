// SPDX-License-Identifier: BSD-2-Clause
// Reads and compares saved documents of stats --json.
#include <fcntl.h>
#include <math.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/util.h"
#include "group/stacks.h"
#include "stats/compare.h"
#include "stats/figures.h"

/* --- saved documents of `stats --json` ----------------------------------------------------- */

#define SAVED_MAX (512U << 20) /* bytes; a million functions take less */

/* --- reading -------------------------------------------------------------------------------- */

DEFINE_CLEANUP(object, struct json_object *, json_object_put)

/* Reads a file or a pipe (`--diff <(...)`) into memory. */
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

/* In the format of stacks_names(). */
static bool put_frame(FILE *f, struct json_object *frame)
{
	const char *name = str_of(frame, "name"), *source = str_of(frame, "source");
	const char *base = source ? strrchr(source, '/') : NULL;
	struct json_object *value;

	if (!name)
		return false;
	/* An empty name would end the stack. */
	fputs(*name ? name : "?", f);
	if (source && json_object_object_get_ex(frame, "line", &value) && value)
		fprintf(f, " (%s:%s)", base ? base + 1 : source, json_object_get_string(value));
	if (json_object_object_get_ex(frame, "inlined", &value) && json_object_get_boolean(value))
		fputs("_[i]", f);
	fputc('\0', f);
	return true;
}

/* Reads "frames":[...],"end":"outermost" of a stack, if the object has them. */
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

/* Reads "kind":{"value":1,"name":"cudaMemcpyHostToDevice"}; null: no such argument. */
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

/* Reads a bound or a count of a histogram. False if it is none. */
static bool number_of(struct json_object *obj, const char *key, uint64_t *ret)
{
	struct json_object *value;

	if (!json_object_is_type(obj, json_type_object) ||
		!json_object_object_get_ex(obj, key, &value) ||
		!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
		return false;
	*ret = json_object_get_uint64(value);
	return true;
}

static int histogram_of(struct json_object *obj, struct saved_func *func)
{
	_cleanup_free_ struct hist_bucket *buckets = NULL;
	struct json_object *list, *bucket;
	size_t cnt;

	if (!json_object_object_get_ex(obj, "histogram", &list) || !list)
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return -EINVAL;
	cnt = json_object_array_length(list);
	buckets = xcalloc(cnt + 1, sizeof(*buckets));
	for (size_t i = 0; i < cnt; i++) {
		bucket = json_object_array_get_idx(list, i);
		if (!number_of(bucket, "ge_ns", &buckets[i].ge_ns) ||
			!number_of(bucket, "lt_ns", &buckets[i].lt_ns) ||
			!number_of(bucket, "count", &buckets[i].cnt))
			return -EINVAL;
	}
	moments_of(buckets, cnt, &func->durations);
	return 0;
}

static int func_of(struct json_object *obj, struct saved_func *func)
{
	const char *name = str_of(obj, "name"), *library = str_of(obj, "library");
	int code;

	if (!json_object_is_type(obj, json_type_object) || !name)
		return -EINVAL;
	code = figures_read(obj, USE_SAVED, &func->figures);
	if (!code)
		code = histogram_of(obj, func);
	if (!code)
		code = rows_of(obj, func);
	if (code)
		return code;
	func->name = xstrdup(name);
	func->library = library ? xstrdup(library) : NULL;
	return 0;
}

DEFINE_ORDER(compare_funcs, struct saved_func,
	strcmp(x->name, y->name) ?:
		strcmp(x->library ? x->library : "", y->library ? y->library : ""))

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
	/* Before version 1 the document was the array itself. */
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

	/* json-c in strict mode rejects white space after the document. */
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	code = parse(saved, text, len);
	if (code == -EINVAL) {
		err_set(err, code, "'%s' is not a document of 'funcsnoop stats --json'",
			path);
		return err_hint(err, "'funcsnoop stats --json -o FILE' writes one");
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

/* Returns the length of the first document. The next one starts with an unindented bracket. */
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
		/* Percentiles cannot be added. */
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
	return FIND_WHERE(row->part, row->part_cnt, i, !strcmp(row->part[i].key, key));
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

/* --- comparison of nodes: each is compared with the majority ------------------------------- */

/*
 * Nodes are not read at the same moment, so a difference in counts means little. A rank is behind
 * if it made no call in two consecutive windows in which the others did.
 */

#define WINDOWS    2
#define SLOW_LEAST 1.2    /* times the median, even if the others do not differ */
#define SLOW_SIGMA 3.0
#define MAD_SIGMA  1.4826 /* standard deviation / median absolute deviation (normal distribution) */
#define SLOW_CALLS 10     /* minimum number of calls of an average */
#define TIME_OFF   0.05   /* relative error of a time after the correction */
#define AMOUNT_OFF 1e-6   /* relative error of a mean of integers */

/* One function, or one key of it, in one document. */
struct piece {
	const char *group, *function, *key; /* "": all of its calls */
	size_t node, document;
	double calls, returns, total_ns, amount;
	double noise_ns; /* error of an average, besides TIME_OFF of it; 0: exact */
	bool timed, summed;
};

/* The same in all documents of one node. */
struct total {
	bool here; /* the node has the group */
	struct piece sum;
	double window[WINDOWS]; /* calls in the last windows, the latest first */
};

/* Windows of a node: documents of intervals, or differences of documents that only grow. */
struct clock {
	bool intervals;
	size_t last; /* document of the last window */
};

struct work {
	const struct compare_node *nodes;
	size_t node_cnt;
	struct clock *clocks;
	struct piece *pieces;
	size_t cnt;
	struct total *totals; /* of each node, for the function or key being compared */
	double *values;       /* scratch space for median() */
	struct comparison *c;
};

const char *compare_word(enum compare_what what)
{
	static const char *const words[] = { "behind", "fewer", "absent", "amount", "slower" };

	return words[what];
}

/* --- input ----------------------------------------------------------------------------------- */

/* Length of the part that all ranks share: the hash in the communicator "fa93daea854b060b 3/8". */
static int common_len(const char *text)
{
	size_t len = strspn(text, "0123456789abcdef");
	size_t rank = text[len] == ' ' ? strspn(text + len + 1, "0123456789") : 0;

	return rank && text[len + 1 + rank] == '/' ? len : strlen(text);
}

/* "kind=cudaMemcpyHostToDevice, stream=0" */
static const char *key_text(struct comparison *c, const struct saved_row *row)
{
	char *text = NULL;
	size_t size;
	FILE *f;

	c->keys = array_grow(c->keys, c->key_cnt, sizeof(*c->keys));
	f = xmemstream(&text, &size);
	for (size_t i = 0; i < row->part_cnt; i++) {
		const char *value = saved_part_text(&row->part[i]);

		fprintf(f, "%s%s=%.*s", i ? ", " : "", row->part[i].key, common_len(value), value);
	}
	xmemstream_end(f);
	return c->keys[c->key_cnt++] = text;
}

static void add_piece(struct work *w, const struct piece *like, const char *key,
	const struct figures *f, double amount, bool summed)
{
	struct piece *piece = array_add(w->pieces, w->cnt);

	*piece = *like;
	piece->key = key;
	piece->calls = figure_or_0(f, FIGURE_CALLS);
	piece->returns = figure_or_0(f, FIGURE_RETURNS);
	piece->total_ns = figure_or_0(f, FIGURE_TOTAL);
	piece->timed = figure_known(f, FIGURE_TOTAL);
	piece->amount = amount;
	piece->summed = summed;
}

static void add_function(struct work *w, struct piece *like, const struct saved_func *f)
{
	like->function = f->name;
	like->noise_ns = figure_or_0(&f->figures, FIGURE_NOISE);
	add_piece(w, like, "", &f->figures, 0, false);
	for (size_t i = 0; i < f->row_cnt; i++)
		add_piece(w, like, key_text(w->c, &f->rows[i]), &f->rows[i].figures,
			f->rows[i].amount, f->rows[i].summed);
}

static void add_all(struct work *w)
{
	struct piece like = {};

	for (like.node = 0; like.node < w->node_cnt; like.node++) {
		const struct compare_node *node = &w->nodes[like.node];

		for (like.document = 0; like.document < node->cnt; like.document++)
			for (size_t i = 0; i < node->documents[like.document]->cnt; i++) {
				const struct saved_group *g =
					&node->documents[like.document]->groups[i];

				like.group = g->name;
				for (size_t k = 0; k < g->func_cnt; k++)
					add_function(w, &like, &g->funcs[k]);
			}
	}
}

static int compare_items(const struct piece *x, const struct piece *y)
{
	int order = strcmp(x->group, y->group);

	if (!order)
		order = strcmp(x->function, y->function);
	return order ? order : strcmp(x->key, y->key);
}

DEFINE_ORDER(compare_pieces, struct piece,
	compare_items(x, y) ?: RISING(node) ?: RISING(document))

/* --- windows ---------------------------------------------------------------------------------- */

static const char *since_of(const struct compare_node *node, size_t document)
{
	const struct saved *d = document < node->cnt ? node->documents[document] : NULL;

	return d && d->cnt ? d->groups[0].since : "";
}

/* Returns the document of @node that starts at @since, or node->cnt. */
static size_t document_at(const struct compare_node *node, const char *since)
{
	size_t i = node->cnt;

	while (i-- > 0)
		if (!strcmp(since_of(node, i), since))
			return i;
	return node->cnt;
}

/* Sets .last to the last window that all nodes with intervals have. False if there is none. */
static bool align(struct work *w, size_t first)
{
	const struct compare_node *node = &w->nodes[first];

	for (size_t at = node->cnt; at-- > 0;) {
		bool all = true;

		for (size_t i = 0; all && i < w->node_cnt; i++) {
			if (!w->clocks[i].intervals)
				continue;
			w->clocks[i].last = document_at(&w->nodes[i], since_of(node, at));
			all = w->clocks[i].last < w->nodes[i].cnt;
		}
		if (all)
			return true;
	}
	return false;
}

/* True if @node has statistics. Nodes without any do not limit the common windows. */
static bool tells(const struct compare_node *node)
{
	return ANY_WHERE(node->cnt, i, node->documents[i]->cnt);
}

static void set_clocks(struct work *w)
{
	size_t first = w->node_cnt, least = WINDOWS, has;

	w->clocks = xcalloc(w->node_cnt + 1, sizeof(*w->clocks));
	for (size_t i = w->node_cnt; i-- > 0;) {
		const struct compare_node *node = &w->nodes[i];

		w->clocks[i].last = node->cnt ? node->cnt - 1 : 0;
		w->clocks[i].intervals = node->cnt > 1 &&
			strcmp(since_of(node, 0), since_of(node, node->cnt - 1)) != 0;
		first = w->clocks[i].intervals ? i : first;
	}
	if (first < w->node_cnt && !align(w, first))
		least = 0;
	for (size_t i = 0; i < w->node_cnt; i++) {
		has = w->clocks[i].last + w->clocks[i].intervals;
		if (tells(&w->nodes[i]))
			least = has < least ? has : least;
	}
	w->c->windows = least;
}

/* Adds rows with the same text, and intervals. Otherwise only the last document counts. */
static void take_piece(const struct work *w, const struct piece *p, struct total *t)
{
	const struct clock *clock = &w->clocks[p->node];
	size_t age = clock->last - p->document;

	if (p->document > clock->last)
		return;
	if (age < WINDOWS)
		t->window[age] += p->calls;
	if (!clock->intervals && age && age <= WINDOWS)
		t->window[age - 1] -= p->calls;
	if (!clock->intervals && age)
		return;
	t->sum.calls += p->calls;
	t->sum.returns += p->returns;
	t->sum.total_ns += p->total_ns;
	t->sum.amount += p->amount;
	if (p->noise_ns > t->sum.noise_ns)
		t->sum.noise_ns = p->noise_ns;
	t->sum.timed |= p->timed;
	t->sum.summed |= p->summed;
}

/* --- outliers ------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_doubles, double, (*x > *y) - (*x < *y))

/* For an even number of values, the lower middle one: at least half of the values reach it. */
static double median(double *values, size_t cnt)
{
	qsort(values, cnt, sizeof(*values), compare_doubles);
	return cnt ? values[(cnt - 1) / 2] : 0;
}

/*
 * Returns the expected number of calls: the median, or the larger number of two nodes, because
 * neither of them is a majority.
 */
static double usual_calls(double *values, size_t cnt)
{
	double usual = median(values, cnt);

	return cnt == 2 ? values[1] : usual;
}

static void found(struct work *w, enum compare_what what, const struct piece *item, size_t node,
	double value, double others)
{
	*array_add(w->c->findings, w->c->cnt) = (struct compare_finding) { what, item->group, item->function,
		*item->key ? item->key : NULL, node, value, others };
}

/*
 * Behind: no call in any window while most nodes made calls. Without windows: fewer than expected.
 */
static void judge_calls(struct work *w, const struct piece *item, size_t here)
{
	double others = 0, least = INFINITY;

	for (size_t k = 0; k <= w->c->windows; k++) {
		size_t cnt = 0;

		for (size_t i = 0; i < w->node_cnt; i++)
			if (w->totals[i].here)
				w->values[cnt++] = k < w->c->windows ? w->totals[i].window[k]
								     : w->totals[i].sum.calls;
		others = usual_calls(w->values, here);
		if (k < w->c->windows)
			least = others < least ? others : least;
	}
	for (size_t i = 0; i < w->node_cnt; i++) {
		const struct total *t = &w->totals[i];

		if (!t->here)
			continue;
		if (w->c->windows == WINDOWS) {
			if (least > 0 && t->window[0] <= 0 && t->window[1] <= 0)
				found(w, COMPARE_BEHIND, item, i, t->sum.calls, others);
		} else if (!t->sum.calls && others > 0) {
			found(w, COMPARE_ABSENT, item, i, 0, others);
		} else if (t->sum.calls < others) {
			found(w, COMPARE_FEWER, item, i, t->sum.calls, others);
		}
	}
}

/* Compares the amount per call, such as bytes, which is the same for all ranks of a collective. */
static void judge_amount(struct work *w, const struct piece *item)
{
	size_t cnt = 0;
	double others;

	for (size_t i = 0; i < w->node_cnt; i++)
		if (w->totals[i].sum.summed && w->totals[i].sum.calls > 0)
			w->values[cnt++] = w->totals[i].sum.amount / w->totals[i].sum.calls;
	if (cnt < 2)
		return;
	others = median(w->values, cnt);
	for (size_t i = 0; i < w->node_cnt; i++) {
		const struct piece *p = &w->totals[i].sum;

		if (p->summed && p->calls > 0 &&
			fabs(p->amount / p->calls - others) > AMOUNT_OFF * fabs(others))
			found(w, COMPARE_AMOUNT, item, i, p->amount / p->calls, others);
	}
}

static bool has_average(const struct piece *p)
{
	return p->timed && p->returns >= SLOW_CALLS;
}

/* True if two averages differ by more than their errors. */
static bool is_beyond_noise(const struct work *w, double average, double others)
{
	double noise = 0;

	for (size_t i = 0; i < w->node_cnt; i++)
		if (has_average(&w->totals[i].sum) && w->totals[i].sum.noise_ns > noise)
			noise = w->totals[i].sum.noise_ns;
	return !noise || average - others > 2 * noise + TIME_OFF * (average + others);
}

static void judge_times(struct work *w, const struct piece *item, size_t here)
{
	double others, spread, limit;
	size_t cnt = 0;

	for (size_t i = 0; i < w->node_cnt; i++)
		if (has_average(&w->totals[i].sum))
			w->values[cnt++] = w->totals[i].sum.total_ns / w->totals[i].sum.returns;
	if (cnt < 2 || (cnt == 2 && here != 2))
		return;
	others = median(w->values, cnt);
	for (size_t i = 0; i < cnt; i++)
		w->values[i] = fabs(w->values[i] - others);
	spread = cnt > 2 ? median(w->values, cnt) * MAD_SIGMA : 0; /* not known for two nodes */
	limit = others + SLOW_SIGMA * spread;
	if (limit < SLOW_LEAST * others)
		limit = SLOW_LEAST * others;
	for (size_t i = 0; i < w->node_cnt; i++) {
		const struct piece *p = &w->totals[i].sum;

		if (has_average(p) && p->total_ns / p->returns > limit &&
			is_beyond_noise(w, p->total_ns / p->returns, others))
			found(w, COMPARE_SLOWER, item, i, p->total_ns / p->returns, others);
	}
}

/* True if @node has a group of that name in any of its documents. */
static bool has_group(const struct compare_node *node, const char *name)
{
	return ANY_WHERE(node->cnt, i, saved_group_find(node->documents[i], name, false));
}

/* Compares one function or key: @cnt pieces, from @item on. */
static void judge(struct work *w, const struct piece *item, size_t cnt)
{
	size_t here = 0;

	memset(w->totals, 0, w->node_cnt * sizeof(*w->totals));
	for (size_t i = 0; i < w->node_cnt; i++)
		here += w->totals[i].here = has_group(&w->nodes[i], item->group);
	for (size_t i = 0; i < cnt; i++)
		take_piece(w, &item[i], &w->totals[item[i].node]);
	if (here < 2)
		return;
	judge_calls(w, item, here);
	judge_amount(w, item);
	judge_times(w, item, here);
}

void compare_nodes(
	const struct compare_node *nodes, size_t cnt, struct comparison *ret_comparison)
{
	struct work w = { .nodes = nodes, .node_cnt = cnt, .c = ret_comparison };

	*ret_comparison = (struct comparison) {};
	w.totals = xcalloc(cnt + 1, sizeof(*w.totals));
	w.values = xcalloc(cnt + 1, sizeof(*w.values));
	set_clocks(&w);
	add_all(&w);
	if (w.cnt)
		qsort(w.pieces, w.cnt, sizeof(*w.pieces), compare_pieces);
	for (size_t i = 0, next; i < w.cnt; i = next) {
		for (next = i; next < w.cnt && !compare_items(&w.pieces[i], &w.pieces[next]);)
			next++;
		judge(&w, &w.pieces[i], next - i);
	}
	free(w.clocks);
	free(w.pieces);
	free(w.totals);
	free(w.values);
}

void comparison_done(struct comparison *c)
{
	for (size_t i = 0; i < c->key_cnt; i++)
		free(c->keys[i]);
	free(c->keys);
	free(c->findings);
}

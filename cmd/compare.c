// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop compare: which node, or rank, stands out among saved statistics of several.
#include "base/util.h"
#include "cli/options.h"
#include "show/table.h"
#include "show/text.h"
#include "stats/compare.h"

/* --- files ------------------------------------------------------------------------------------ */

struct files {
	struct compare_node *nodes;
	char **names;
	size_t cnt;
};

static void files_done(struct files *files)
{
	for (size_t i = 0; i < files->cnt; i++) {
		for (size_t k = 0; k < files->nodes[i].cnt; k++)
			saved_free(files->nodes[i].documents[k]);
		free(files->nodes[i].documents);
		free(files->names[i]);
	}
	free(files->nodes);
	free(files->names);
}

/* "NODE=FILE", or a file that is called like its node. */
static char *name_node(const char *word, const char **ret_path)
{
	const char *equals = strchr(word, '='), *slash = strchr(word, '/'), *base;
	size_t len;

	*ret_path = word;
	if (equals && (!slash || equals < slash)) {
		*ret_path = equals + 1;
		return xstrndup(word, equals - word);
	}
	base = strrchr(word, '/') ? strrchr(word, '/') + 1 : word;
	len = strlen(base);
	if (len > 5 && !strcmp(base + len - 5, ".json"))
		len -= 5;
	return xstrndup(base, len);
}

static int read_files(const struct words *words, struct files *files, struct err *err)
{
	int code = 0;

	files->nodes = xcalloc(words->cnt, sizeof(*files->nodes));
	files->names = xcalloc(words->cnt, sizeof(*files->names));
	while (!code && files->cnt < words->cnt) {
		size_t i = files->cnt++;
		const char *path;

		files->names[i] = name_node(words->word[i], &path);
		files->nodes[i].name = files->names[i];
		for (size_t k = 0; k < i; k++)
			if (!strcmp(files->names[k], files->names[i]))
				return err_set(err, -ERR_USAGE,
					"two files are of node '%s': NODE=FILE names one",
					files->names[i]);
		code = saved_read_all(path, &files->nodes[i].documents, &files->nodes[i].cnt, err);
	}
	return code;
}

/* --- who has nothing of a group ----------------------------------------------------------------- */

static bool has_group(const struct compare_node *node, size_t documents, const char *name)
{
	return ANY_WHERE(documents, i, saved_group_find(node->documents[i], name, false));
}

/* Whether the first to have it is @node, in document @document. */
static bool is_first(const struct files *files, size_t node, size_t document, const char *name)
{
	return !ANY_WHERE(node, i, has_group(&files->nodes[i], files->nodes[i].cnt, name)) &&
		!has_group(&files->nodes[node], document, name);
}

typedef void (*missing_fn)(const char *node, const char *group, void *arg);

static size_t tell_missing(
	const struct files *files, const char *group, missing_fn tell, void *arg)
{
	size_t cnt = 0;

	for (size_t i = 0; i < files->cnt; i++)
		if (!has_group(&files->nodes[i], files->nodes[i].cnt, group)) {
			tell(files->nodes[i].name, group, arg);
			cnt++;
		}
	return cnt;
}

/* Nodes without a group were not compared, and may behave differently from the others. */
static size_t tell_all_missing(const struct files *files, missing_fn tell, void *arg)
{
	size_t cnt = 0;

	for (size_t i = 0; i < files->cnt; i++)
		for (size_t k = 0; k < files->nodes[i].cnt; k++) {
			const struct saved *d = files->nodes[i].documents[k];

			for (size_t n = 0; n < d->cnt; n++)
				if (is_first(files, i, k, d->groups[n].name))
					cnt += tell_missing(files, d->groups[n].name, tell, arg);
		}
	return cnt;
}

static void note_missing(const char *node, const char *group, void *g)
{
	cmd_note(g, "node '%s' has nothing of group '%s': not compared", node, group);
}

static void add_missing(const char *node, const char *group, void *doc)
{
	json_open(doc, '{');
	json_set_str(doc, "node", node);
	json_set_str(doc, "group", group);
	json_close(doc, '}');
}

static void pass_missing(const char *node, const char *group, void *unused)
{
}

/* --- what is shown ------------------------------------------------------------------------------ */

static void put_value(struct grid *table, const struct compare_finding *f, double value)
{
	char buf[TEXT_NUM_LEN];

	if (f->what == COMPARE_SLOWER)
		grid_textf(table, "%s", text_duration((uint64_t)value, buf));
	else
		grid_textf(table, "%.15g", value);
}

static void put_text(struct grid *table, const char *text)
{
	_cleanup_free_ char *safe = text ? text_escape(text) : NULL;

	grid_textf(table, "%s", safe ? safe : "-");
}

static void print_table(const struct globals *g, const struct files *files,
	const struct comparison *c)
{
	static const struct table_column columns[] = { { "GROUP", TABLE_LEFT, false },
		{ "FUNCTION", TABLE_LEFT, true }, { "KEY", TABLE_LEFT, true },
		{ "NODE", TABLE_LEFT, false }, { "IS", TABLE_LEFT, false },
		{ "VALUE", TABLE_RIGHT, false }, { "OTHERS", TABLE_RIGHT, false } };
	_cleanup_table_ struct grid *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < c->cnt; i++) {
		const struct compare_finding *f = &c->findings[i];

		put_text(table, f->group);
		put_text(table, f->function);
		put_text(table, f->key);
		put_text(table, files->nodes[f->node].name);
		grid_textf(table, "%s", compare_word(f->what));
		put_value(table, f, f->value);
		put_value(table, f, f->others);
	}
	if (c->cnt)
		grid_print(table, g, false, stdout);
	else
		cmd_note(g, tell_all_missing(files, pass_missing, NULL)
				? "none of %zu nodes differs, as far as they were compared"
				: "%zu nodes are alike", files->cnt);
	if (c->windows < 2)
		cmd_note(g, "nodes that are behind are not detected: that needs two intervals that all nodes have");
}

static int print_json(const struct globals *g, const struct files *files,
	const struct comparison *c)
{
	struct json *doc = json_object(g);

	json_set_open(doc, "nodes", '[');
	for (size_t i = 0; i < files->cnt; i++)
		json_str(doc, files->nodes[i].name);
	json_close(doc, ']');
	json_set_u64(doc, "windows", c->windows);
	json_set_open(doc, "findings", '[');
	for (size_t i = 0; i < c->cnt; i++) {
		const struct compare_finding *f = &c->findings[i];

		json_open(doc, '{');
		json_set_str(doc, "group", f->group);
		json_set_str(doc, "function", f->function);
		json_set_str(doc, "key", f->key);
		json_set_str(doc, "node", files->nodes[f->node].name);
		json_set_str(doc, "is", compare_word(f->what));
		json_key(doc, "value");
		json_real(doc, "%.15g", f->value);
		json_key(doc, "others");
		json_real(doc, "%.15g", f->others);
		json_close(doc, '}');
	}
	json_close(doc, ']');
	json_set_open(doc, "missing", '[');
	(void)tell_all_missing(files, add_missing, doc);
	json_close(doc, ']');
	return json_print(doc);
}

static int run(struct globals *g, int argc, char **argv)
{
	__cleanup(comparison_done) struct comparison c = {};
	__cleanup(files_done) struct files files = {};
	_cleanup_options_ struct options o;
	struct err err = {};
	int status = EXIT_DONE;

	cmd_parse(g, &cmd_compare, argc, argv, &o);
	if (o.words.cnt < 2)
		return cmd_usage(g, "at least two nodes are required");
	if (read_files(&o.words, &files, &err))
		return cmd_fail(g, &err);
	compare_nodes(files.nodes, files.cnt, &c);
	if (g->json)
		status = print_json(g, &files, &c);
	else
		print_table(g, &files, &c);
	(void)tell_all_missing(&files, note_missing, g);
	for (size_t i = 0; status == EXIT_DONE && i < c.cnt; i++)
		if (o.fail_if & 1U << c.findings[i].what)
			return EXIT_CONDITION;
	return status;
}

const struct command cmd_compare = { "compare", "FILE FILE...", "saved statistics of nodes or ranks",
	run, ON_COMPARE, "FILE FILE...",
	"Compare saved statistics of nodes or ranks, and print the nodes that are behind,\n"
	"slower or different. FILE is the output of 'stats --json -o' or 'stats -i' with\n"
	"--json on one node, or NODE=FILE.\v"
	"A node is behind if it made no call in two intervals while most others did.\n"
	"Examples:\n"
	"  funcsnoop compare node1.json node2.json node3.json --fail-if behind\n"
	"  funcsnoop compare *.json   each by: stats nccl -i 10 -d 30 --json >HOST.json" };

// SPDX-License-Identifier: BSD-2-Clause
// What all JSON documents share: how they begin and end, times, costs, and errors.
#include <errno.h>
#include <stdlib.h>

#include "show/json.h"
#include "show/text.h"

/* A document that is kept until it is whole. */
struct document {
	struct json json; /* stays first */
	struct out out;
};

static void out_of_memory(void)
{
	fprintf(stderr, "funcsnoop: out of memory\n");
	exit(EXIT_FAILED);
}

struct json json_begin(const struct globals *g, struct out *out)
{
	return (struct json) { .out = out, .pretty = g->pretty, .letters = true };
}

int json_flush(struct json *j, FILE *f)
{
	if (j->out->failed)
		return -ENOMEM;
	fwrite(j->out->buf, 1, j->out->len, f);
	j->out->len = 0;
	return 0;
}

static struct json *document_new(const struct globals *g, char bracket)
{
	struct document *doc = calloc(1, sizeof(*doc));

	if (!doc)
		out_of_memory();
	doc->json = json_begin(g, &doc->out);
	json_open(&doc->json, bracket);
	return &doc->json;
}

struct json *json_array(const struct globals *g)
{
	return document_new(g, '[');
}

struct json *json_object(const struct globals *g)
{
	return document_new(g, '{');
}

void json_free(struct json **doc)
{
	if (*doc)
		out_done((*doc)->out);
	free(*doc);
}

/* What it began with is what it ends with. */
static void end(struct json *doc)
{
	if (!doc->out->failed)
		json_close(doc, doc->out->buf[0] == '[' ? ']' : '}');
}

int json_print(struct json *doc)
{
	end(doc);
	out_char(doc->out, '\n');
	if (json_flush(doc, stdout))
		out_of_memory();
	json_free(&doc);
	return EXIT_DONE;
}

void json_set_time(struct json *j, const char *key, uint64_t realtime_ns)
{
	char buf[TEXT_NUM_LEN];

	json_set_str(j, key, text_time(realtime_ns, buf));
}

void json_set_cost(struct json *j, const struct cost *cost)
{
	json_set_u64_if(j, "cost_ns_per_s", cost->source != COST_UNKNOWN, cost->ns_per_s);
	json_set_str(j, "cost_source", cost_source_name(cost->source));
}

void json_error(const struct globals *g, const char *message)
{
	json_error_groups(g, message, NULL);
}

void json_error_groups(const struct globals *g, const char *message, struct json *groups)
{
	struct json *doc = json_object(g);

	json_set_str(doc, "error", message);
	if (groups && groups->place == JSON_NEXT) {
		end(groups);
		json_key(doc, "groups");
		json_embed(doc, groups->out);
	}
	json_free(&groups);
	json_print(doc);
}

int json_version(const struct globals *g, const char *version, const char *libbpf)
{
	struct json *doc = json_object(g);

	json_set_str(doc, "version", version);
	json_set_str(doc, "libbpf", libbpf);
	return json_print(doc);
}

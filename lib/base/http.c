// SPDX-License-Identifier: BSD-2-Clause
// Parses the head of an untrusted HTTP request.
#include <ctype.h>
#include <strings.h>

#include "base/http.h"
#include "base/util.h"

struct piece {
	const char *at;
	size_t len;
};

struct head {
	bool has_host, has_body;
	bool is_1_0;
};

/* RFC 9110, 5.6.2 */
static bool is_token(struct piece p)
{
	return p.len && ALL_WHERE(p.len, i, isalnum((unsigned char)p.at[i]) ||
		(p.at[i] && strchr("!#$%&'*+-.^_`|~", p.at[i])));
}

/* Removes the next line from @rest. False if it is incomplete. A single line feed also ends it. */
static bool next_line(struct piece *rest, struct piece *ret_line)
{
	const char *end = memchr(rest->at, '\n', rest->len);

	if (!end)
		return false;
	*ret_line = (struct piece) { rest->at, end - rest->at };
	rest->len -= ret_line->len + 1;
	rest->at = end + 1;
	if (ret_line->len && end[-1] == '\r')
		ret_line->len--;
	return true;
}

/* Removes the part of @p before the first @c, and @c. False if there is none. */
static bool cut(struct piece *p, char c, struct piece *ret_before)
{
	const char *at = memchr(p->at, c, p->len);

	if (!at)
		return false;
	*ret_before = (struct piece) { p->at, at - p->at };
	p->len -= ret_before->len + 1;
	p->at = at + 1;
	return true;
}

static bool is_word(struct piece p, const char *word)
{
	return p.len == strlen(word) && !strncasecmp(p.at, word, p.len);
}

/* Accepts a path, or an absolute URL as sent to proxies. */
static bool parse_target(struct piece target, struct http_request *r)
{
	static const char scheme[] = "http://";
	size_t skip = sizeof(scheme) - 1;
	const char *query;

	if (ANY_WHERE(target.len, i, target.at[i] <= ' ' || target.at[i] > '~'))
		return false;
	if (target.len > skip && !strncasecmp(target.at, scheme, skip)) {
		target = (struct piece) { target.at + skip, target.len - skip };
		query = memchr(target.at, '/', target.len);
		if (!query)
			return false;
		target.len -= query - target.at;
		target.at = query;
	}
	if (!target.len || *target.at != '/')
		return false;
	query = memchr(target.at, '?', target.len);
	r->path = target.at;
	r->path_len = query ? (size_t)(query - target.at) : target.len;
	return true;
}

static bool parse_first(struct piece line, struct http_request *r, struct head *head)
{
	struct piece method, target;

	if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target) || !is_token(method))
		return false;
	/* The third field is the version, and the last one. */
	if (line.len != 8 || memcmp(line.at, "HTTP/1.", 7) != 0 ||
		!isdigit((unsigned char)line.at[7]))
		return false;
	head->is_1_0 = line.at[7] == '0';
	/* Methods are case-sensitive. */
	r->method = method.len == 3 && !memcmp(method.at, "GET", 3)      ? HTTP_GET
		: method.len == 4 && !memcmp(method.at, "HEAD", 4) ? HTTP_HEAD
								    : HTTP_OTHER;
	return parse_target(target, r);
}

/* A length of 0 means no body; a value that is not a number is invalid. */
static bool parse_length(struct piece value, struct head *head)
{
	for (size_t i = 0; i < value.len; i++) {
		if (!isdigit((unsigned char)value.at[i]))
			return false;
		head->has_body |= value.at[i] != '0';
	}
	return value.len;
}

static bool parse_field(struct piece line, struct head *head)
{
	struct piece name;

	if (!cut(&line, ':', &name) || !is_token(name))
		return false;
	while (line.len && (*line.at == ' ' || *line.at == '\t'))
		line = (struct piece) { line.at + 1, line.len - 1 };
	while (line.len && (line.at[line.len - 1] == ' ' || line.at[line.len - 1] == '\t'))
		line.len--;
	if (ANY_WHERE(line.len, i, line.at[i] != '\t' && iscntrl((unsigned char)line.at[i])))
		return false;
	if (is_word(name, "content-length"))
		return parse_length(line, head);
	head->has_body |= is_word(name, "transfer-encoding");
	if (!is_word(name, "host"))
		return true;
	if (head->has_host)
		return false;
	return head->has_host = true;
}

/* True if an incomplete line cannot become valid, such as the bytes of another protocol (TLS). */
static bool is_hopeless(struct piece rest, bool first)
{
	return ANY_WHERE(rest.len, i, rest.at[i] != '\t' && rest.at[i] != '\r' &&
		       iscntrl((unsigned char)rest.at[i])) ||
		(first && rest.len && !is_token((struct piece) { rest.at, 1 }) && *rest.at != '\r');
}

int http_parse(const char *bytes, size_t len, struct http_request *ret_request)
{
	struct piece rest = { bytes, len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX }, line;
	struct http_request r = {};
	struct head head = {};
	bool first = true, before = true;

	while (next_line(&rest, &line)) {
		if (first && !line.len) {
			/* One empty line before a request is forgiven: RFC 9112, 2.2. */
			if (!before)
				return 400;
			before = false;
		} else if (first) {
			if (!parse_first(line, &r, &head))
				return 400;
			first = false;
		} else if (line.len) {
			if (!parse_field(line, &head))
				return 400;
		} else {
			if (!head.has_host && !head.is_1_0)
				return 400;
			*ret_request = r;
			return head.has_body ? 413 : 200;
		}
	}
	if (is_hopeless(rest, first))
		return 400;
	return len < HTTP_HEAD_MAX ? 0 : 431;
}

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} known[] = { { 200, "OK" }, { 400, "Bad Request" }, { 404, "Not Found" },
		{ 405, "Method Not Allowed" }, { 408, "Request Timeout" },
		{ 413, "Content Too Large" }, { 431, "Request Header Fields Too Large" },
		{ 503, "Service Unavailable" } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].status == status)
			return known[i].reason;
	return "Internal Server Error";
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Positions, and points in a recording.  Values without locks or state: any
 * thread may call any of this.
 */
#include <string.h>

#include "recording/position.h"

G_DEFINE_QUARK(point-error-quark, point_error)

Point *point_new(unsigned n_vcpus)
{
    Point *point;

    g_assert(n_vcpus > 0 && n_vcpus <= RECORDER_MAX_VCPUS);
    point = g_malloc0(sizeof(*point) + n_vcpus * sizeof(point->at[0]));
    point->n_vcpus = n_vcpus;
    return point;
}

void point_free(Point *point)
{
    g_free(point);
}

char *point_format(const Point *point)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < point->n_vcpus; i++) {
        g_string_append_printf(text, "%s%u:%" G_GUINT64_FORMAT,
                               i ? "," : "", i, point->at[i]);
    }
    return g_string_free(text, FALSE);
}

/* Parse digits and advance *@text; strtoull() alone would accept signs, spaces and overflows. */
static bool parse_u64(const char **text, uint64_t *value)
{
    guint64 parsed;
    size_t digits = strspn(*text, "0123456789");
    g_autofree char *number = g_strndup(*text, digits);

    if (!g_ascii_string_to_unsigned(number, 10, 0, G_MAXUINT64, &parsed, NULL)) {
        return false;
    }
    *value = parsed;
    *text += digits;
    return true;
}

Point *point_parse(const char *text, unsigned n_vcpus, GError **error)
{
    g_autoptr(Point) point = point_new(n_vcpus);
    const char *p = text;

    for (unsigned i = 0; i < n_vcpus; i++) {
        uint64_t vcpu;

        if (i > 0 && *p == '\0') {
            g_set_error(error, POINT_ERROR, POINT_ERROR_VCPUS,
                        "point '%s' has %u of the recording's %u vCPUs",
                        text, i, n_vcpus);
            return NULL;
        }
        if ((i > 0 && *p++ != ',') || !parse_u64(&p, &vcpu) || *p++ != ':' ||
            !parse_u64(&p, &point->at[i])) {
            g_set_error(error, POINT_ERROR, POINT_ERROR_SYNTAX,
                        "'%s' is not a point: expected VCPU:POSITION,... "
                        "such as 0:1500,1:0", text);
            return NULL;
        }
        if (vcpu != i) {
            g_set_error(error, POINT_ERROR, POINT_ERROR_VCPUS,
                        "point '%s' names vCPU %" G_GUINT64_FORMAT
                        " where vCPU %u belongs", text, vcpu, i);
            return NULL;
        }
    }
    if (*p != '\0') {
        g_set_error(error, POINT_ERROR, POINT_ERROR_VCPUS,
                    "point '%s' goes on after the recording's %u vCPUs",
                    text, n_vcpus);
        return NULL;
    }
    return g_steal_pointer(&point);
}

bool point_includes(const Point *b, const Point *a)
{
    g_assert(a->n_vcpus == b->n_vcpus);
    for (unsigned i = 0; i < a->n_vcpus; i++) {
        if (a->at[i] > b->at[i]) {
            return false;
        }
    }
    return true;
}

/* Whether a body of records is what its header says: what record_check.py asks, over the same bytes, in C.
 *
 * Owns one question, answered with the range of the records' times or with no. Whoever hears no asks the walk in Python,
 * whose verdict counts and whose error is told; so this file holds no message, and a no too many costs time only. A yes
 * too many would be a bug. Both count headers up to the same limit, which bounds what the walk in Python has to do.
 * It must not allocate, call back into Python, or keep anything between two calls. Bytes come from peers: every read is
 * behind a comparison with the end of its record, which lies within the body. Pointers never leave the body, not even
 * for a comparison: lengths are compared with what is left. The interpreter's lock is held, so nobody writes meanwhile.
 * Shown by tests/broker_wire/test_wire_record_check.py (both paths) and test_wire_compiled.py (they agree).
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* one file for every CPython since 3.11 */
#include <Python.h>

#include <stdint.h>

#ifndef SOURCE_SHA256
#define SOURCE_SHA256 ""
#endif

typedef const uint8_t *cursor;

enum {
    VARINT_SHIFT_MAX = 63,     /* of the tenth byte, the last one that is read */
    HEADER_BYTES_MIN = 2,      /* a name's length and a value's */
};

/* A zigzag varint. Only this of it matters: its value if that is 0 or more, else -1. A value beyond 64 bits, which
 * Python's numbers can hold, becomes INT64_MAX: more than any body has. Returns where it ends, NULL if it does not. */
static cursor read_long_length(cursor at, cursor end, int64_t *length)
{
    uint64_t bits = 0;
    for (int shift = 0; shift <= VARINT_SHIFT_MAX; shift += 7) {
        if (at == end)
            return NULL;
        uint8_t byte = *at++;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (bits & 1)
                *length = -1;
            else if (shift == VARINT_SHIFT_MAX && byte > 1) /* bits were shifted out */
                *length = INT64_MAX;
            else
                *length = (int64_t)(bits >> 1);
            return at;
        }
    }
    return NULL;
}

/* A length; nearly every varint has one byte or two, and these are read here: it halves the time. */
static inline cursor read_length(cursor at, cursor end, int64_t *length)
{
    if (end - at < 2 || (at[0] & at[1] & 0x80))
        return read_long_length(at, end, length);
    uint32_t bits = at[0];
    if (bits > 0x7F) {
        bits = (bits & 0x7F) | (uint32_t)at[1] << 7;
        at++;
    }
    *length = bits & 1 ? -1 : (int64_t)(bits >> 1);
    return at + 1;
}

/* A number of 64 bits; more bits than that are refused. Returns where it ends, NULL if it does not. */
static cursor read_long_number(cursor at, cursor end, int64_t *number)
{
    uint64_t bits = 0;
    for (int shift = 0; shift <= VARINT_SHIFT_MAX; shift += 7) {
        if (at == end)
            return NULL;
        uint8_t byte = *at++;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (shift == VARINT_SHIFT_MAX && byte > 1) /* bits were shifted out */
                return NULL;
            *number = bits & 1 ? -(int64_t)(bits >> 1) - 1 : (int64_t)(bits >> 1);
            return at;
        }
    }
    return NULL;
}

/* The same, with the short forms read here. */
static inline cursor read_number(cursor at, cursor end, int64_t *number)
{
    if (end - at < 2 || (at[0] & at[1] & 0x80))
        return read_long_number(at, end, number);
    uint32_t bits = at[0];
    if (bits > 0x7F) {
        bits = (bits & 0x7F) | (uint32_t)at[1] << 7;
        at++;
    }
    *number = bits & 1 ? -(int64_t)(bits >> 1) - 1 : (int64_t)(bits >> 1);
    return at + 1;
}

/* A length and its bytes; a negative length has none. */
static inline cursor skip_bytes(cursor at, cursor end)
{
    int64_t length;
    if ((at = read_length(at, end, &length)) == NULL)
        return NULL;
    if (length <= 0)
        return at;
    return length <= end - at ? at + length : NULL;
}

/* What a walk finds out about the records. */
struct found {
    int64_t lowest, highest; /* timestamp deltas */
    int64_t headers_left;    /* so many more are allowed */
};

static cursor skip_headers(cursor at, cursor end, struct found *found)
{
    int64_t count, name;
    if ((at = read_length(at, end, &count)) == NULL || count < 0 || count > (end - at) / HEADER_BYTES_MIN)
        return NULL;
    if (count > found->headers_left)
        return NULL;
    found->headers_left -= count;
    for (; count > 0; count--) {
        if ((at = read_length(at, end, &name)) == NULL || name < 0 || name > end - at)
            return NULL;
        if ((at = skip_bytes(at + name, end)) == NULL)
            return NULL;
    }
    return at;
}

/* Where the offset delta ends if it is `index`, in no more bytes than it needs, as every producer writes it; else NULL. */
static inline cursor match_delta(cursor at, cursor end, uint64_t index)
{
    uint64_t rest = index << 1;
    for (; rest > 0x7F; rest >>= 7) {
        if (at == end || *at++ != (uint8_t)(rest | 0x80))
            return NULL;
    }
    return at != end && *at == (uint8_t)rest ? at + 1 : NULL;
}

/* Where the record ends, NULL if it is none or has another offset delta than `index`. */
static inline cursor check_record(cursor at, cursor body_end, uint64_t index, struct found *found)
{
    int64_t length;
    if ((at = read_length(at, body_end, &length)) == NULL || length < 0 || length > body_end - at)
        return NULL;
    cursor end = at + length;
    if (at == end)
        return NULL;
    at++; /* attributes: none are defined */
    int64_t time;
    if ((at = read_number(at, end, &time)) == NULL)
        return NULL;
    if (time < found->lowest)
        found->lowest = time;
    if (time > found->highest)
        found->highest = time;
    if ((at = match_delta(at, end, index)) == NULL)
        return NULL;
    if ((at = skip_bytes(at, end)) == NULL) /* key */
        return NULL;
    if ((at = skip_bytes(at, end)) == NULL) /* value */
        return NULL;
    if (at != end && *at == 0) /* no headers */
        at++;
    else
        at = skip_headers(at, end, found);
    return at == end ? end : NULL;
}

static PyObject *times_of_sound(PyObject *module, PyObject *const *arguments, Py_ssize_t argument_count)
{
    (void)module;
    if (argument_count != 3) {
        PyErr_SetString(PyExc_TypeError, "times_of_sound takes a body, a count and a limit of headers");
        return NULL;
    }
    long long count = PyLong_AsLongLong(arguments[1]);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    long long headers_max = PyLong_AsLongLong(arguments[2]);
    if (headers_max == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(arguments[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    cursor at = view.buf, end = at + view.len;
    struct found found = {INT64_MAX, INT64_MIN, headers_max};
    int is_good = count > 0;
    for (long long index = 0; is_good && index < count; index++) {
        at = check_record(at, end, (uint64_t)index, &found);
        is_good = at != NULL;
    }
    is_good = is_good && at == end;
    PyBuffer_Release(&view);
    if (!is_good)
        Py_RETURN_NONE;
    return Py_BuildValue("(LL)", (long long)found.lowest, (long long)found.highest);
}

static PyMethodDef methods[] = {
    {"times_of_sound", (PyCFunction)(void (*)(void))times_of_sound, METH_FASTCALL,
     "times_of_sound(body, count, headers_max): the lowest and the highest timestamp delta if body is exactly count whole "
     "records with the offset deltas 0 to count - 1 and no more than headers_max headers in all, else None."},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddStringConstant(module, "SOURCE_SHA256", SOURCE_SHA256);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_record_check",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__record_check(void)
{
    return PyModuleDef_Init(&definition);
}

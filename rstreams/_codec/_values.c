/* Encoded AMQP values to Python, one at a time, where they stand in a message: decode_in_python.py has the same functions.

   A function here that finds bytes which are malformed, or of a rare kind, calls the function in Python with the same
   arguments, and returns its result or raises its error. Therefore both give the same values and the same errors.

   `bind` returns the functions. Its arguments are the state of the module. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>

#include "_decode_values.h"

/* --------------------------------------------------------------------------------------------------------- of values */

/* Begin with the arguments (buffer, at, ...) if they have these types; return whether they have. */
static bool begin(const values_t *values, PyObject *const *args, Py_ssize_t count, source_t *source)
{
    if (count < 2 || !PyBytes_CheckExact(args[0]) || !PyLong_CheckExact(args[1]))
        return false;
    *source = source_of(args[0], values);
    source->at = PyLong_AsSsize_t(args[1]);
    return source->at >= 0 && source->at <= source->size;
}

/* Return the tuple of `value`, whose reference is taken over, and the position; NULL if there is no value. */
static PyObject *with_position(PyObject *value, const source_t *source)
{
    return value == NULL ? NULL : Py_BuildValue("Nn", value, source->at);
}

/* The functions in Python that those below call, by their place in `values_t`. */
enum { READ_LIST, READ_MAP, READ_SECTION, SKIP_VALUE, SPLIT_ITEMS, WITH_ANNOTATIONS, LIFETIME_OF, MAY_EXPIRE, MAY_ASK };

static PyObject *in_python(const values_t *values, int which, PyObject *const *args, Py_ssize_t count)
{
    PyObject *result = NULL, *given = leave() ? PyTuple_New(count) : NULL;
    for (Py_ssize_t i = 0; given != NULL && i < count; i++)
        PyTuple_SetItem(given, i, Py_NewRef(args[i]));
    if (given != NULL)
        result = PyObject_CallObject(values->in_python[which], given);
    Py_XDECREF(given);
    return result;
}

PyDoc_STRVAR(read_list_doc, "read_list(buffer, at): as in decode_in_python.");

static PyObject *read_list_at(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const values_t *values = PyModule_GetState(module);
    source_t source;
    PyObject *list = NULL;
    if (count == 2 && begin(values, args, count, &source)) {
        const unsigned char *code = take(&source, 1);
        if (code != NULL && (*code == 0xC0 || *code == 0xD0))
            list = with_position(read_list(&source, *code == 0xD0, 0), &source);
    }
    return list != NULL ? list : in_python(values, READ_LIST, args, count);
}

PyDoc_STRVAR(read_map_doc, "read_map(buffer, at): as in decode_in_python.");

static PyObject *read_map_at(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const values_t *values = PyModule_GetState(module);
    source_t source;
    PyObject *map = NULL;
    if (count == 2 && begin(values, args, count, &source)) {
        const unsigned char *code = take(&source, 1);
        if (code != NULL && (*code == 0xC1 || *code == 0xD1))
            map = with_position(read_map(&source, *code == 0xD1, 0, 0), &source);
    }
    return map != NULL ? map : in_python(values, READ_MAP, args, count);
}

PyDoc_STRVAR(read_section_doc, "read_section(buffer, at, before=0): as in sections_in_python.");

static PyObject *read_section(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const values_t *values = PyModule_GetState(module);
    source_t source;
    if (count <= 3 && begin(values, args, count, &source) && (count < 3 || PyLong_CheckExact(args[2]))) {
        long before = count < 3 ? 0 : PyLong_AsLong(args[2]);
        int code = before < 0 || before > FOOTER ? 0 : take_section(&source, (int)before);
        if (code != 0)
            return Py_BuildValue("in", code, source.at);
    }
    return in_python(values, READ_SECTION, args, count);
}

PyDoc_STRVAR(skip_value_doc, "skip_value(buffer, at): as in decode_in_python.");

static PyObject *skip_value(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const values_t *values = PyModule_GetState(module);
    source_t source;
    if (count == 2 && begin(values, args, count, &source) && skip(&source))
        return PyLong_FromSsize_t(source.at);
    return in_python(values, SKIP_VALUE, args, count);
}

PyDoc_STRVAR(split_items_doc, "split_items(buffer, at, count): as in decode_in_python.");

static PyObject *split_items(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const values_t *values = PyModule_GetState(module);
    source_t source;
    if (count == 3 && begin(values, args, count, &source) && PyLong_CheckExact(args[2])) {
        Py_ssize_t items = PyLong_AsSsize_t(args[2]);
        PyObject *parts = items < 0 ? NULL : PyList_New(0);
        for (Py_ssize_t i = 0; parts != NULL && i < items; i++) {
            Py_ssize_t from = source.at;
            PyObject *part = NULL;
            if (skip(&source))
                part = PyBytes_FromStringAndSize((const char *)source.bytes + from, source.at - from);
            if (part == NULL || PyList_Append(parts, part) < 0)
                Py_CLEAR(parts);
            Py_XDECREF(part);
        }
        if (parts != NULL)
            return parts;
    }
    return in_python(values, SPLIT_ITEMS, args, count);
}

/* ------------------------------------------------------------------------------------------------------- annotations */

/* Write the pairs of the map that begins at `source`, except removed keys, to `to`; return how many, -1 if they are
   left to Python. They take at most the map's own bytes. */
static Py_ssize_t keep_pairs(source_t *source, PyObject *added, PyObject *removed, unsigned char *to, Py_ssize_t *size)
{
    Py_ssize_t begin = source->at, content, count, end, position = 0, kept = 0;
    const unsigned char *code = take(source, 1);
    if (code == NULL || (*code != 0xC1 && *code != 0xD1))
        return -1;
    PyObject *key, *value, *known = read_map(source, *code == 0xD1, 0, 0);
    if (known == NULL)
        return -1;
    source->at = begin + 1;
    enter_compound(source, *code == 0xD1, &count, &end); /* it has been read before, therefore it is right */
    while (kept >= 0 && PyDict_Next(known, &position, &key, &value)) {
        content = source->at;
        int gone = skip(source) && skip(source) ? PyDict_Contains(added, key) : -1;
        if (gone == 0)
            gone = PySequence_Contains(removed, key);
        if (gone < 0)
            kept = -1;
        else if (gone == 0) {
            memcpy(to + *size, source->bytes + content, (size_t)(source->at - content));
            *size += source->at - content;
            kept++;
        }
    }
    Py_DECREF(known);
    return kept;
}

/* Write the pair of a name, as a symbol, and an encoded value; return whether it had room. */
static bool add_pair(PyObject *name, PyObject *value, unsigned char *to, Py_ssize_t room, Py_ssize_t *size)
{
    Py_ssize_t length;
    const char *text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (text == NULL || length > 255 || length != PyUnicode_GetLength(name) || !PyBytes_CheckExact(value) ||
        room - *size < 2 + length + PyBytes_Size(value))
        return false;
    to[(*size)++] = 0xA3;
    to[(*size)++] = (unsigned char)length;
    memcpy(to + *size, text, (size_t)length);
    memcpy(to + *size + length, PyBytes_AsString(value), (size_t)PyBytes_Size(value));
    *size += length + PyBytes_Size(value);
    return true;
}

/* Return the message with these annotations; NULL if it is left to Python. */
static PyObject *annotated(source_t *source, PyObject *added, PyObject *removed)
{
    Py_ssize_t at = 0, end, room = 0, size = 0, kept = 0, position = 0;
    int code = 0;
    while (source->at < source->size) {
        at = source->at;
        if ((code = take_section(source, code)) == 0)
            return NULL;
        if (code >= MESSAGE_ANNOTATIONS)
            break;
        if (!skip(source))
            return NULL;
        at = source->at;
    }
    PyObject *name, *value, *encoded = NULL;
    while (PyDict_Next(added, &position, &name, &value))
        if (PyUnicode_CheckExact(name) && PyBytes_CheckExact(value))
            room += 2 + PyUnicode_GetLength(name) + PyBytes_Size(value);
    if (code == MESSAGE_ANNOTATIONS)
        room += source->size - source->at;
    unsigned char *pairs = PyMem_Malloc((size_t)room + 1);
    if (pairs == NULL)
        return PyErr_NoMemory();
    end = at;
    if (code == MESSAGE_ANNOTATIONS) {
        kept = keep_pairs(source, added, removed, pairs, &size);
        end = source->at;
    }
    bool done = kept >= 0;
    position = 0;
    while (done && PyDict_Next(added, &position, &name, &value)) {
        done = add_pair(name, value, pairs, room, &size);
        kept++;
    }
    bool wide = size >= 255 || 2 * kept >= 256;
    if (done && (uint64_t)size <= UINT32_MAX - 4) {
        encoded = PyBytes_FromStringAndSize(NULL, at + (wide ? 12 : 6) + size + (source->size - end));
    }
    if (encoded != NULL) {
        unsigned char *to = (unsigned char *)PyBytes_AsString(encoded);
        const unsigned char start[] = {0, 0x53, MESSAGE_ANNOTATIONS, wide ? 0xD1 : 0xC1};
        memcpy(to, source->bytes, (size_t)at);
        memcpy(to += at, start, sizeof start);
        to += sizeof start;
        for (int i = 0, width = wide ? 4 : 1; i < width; i++) {
            to[i] = (unsigned char)((uint64_t)(size + width) >> 8 * (width - 1 - i));
            to[width + i] = (unsigned char)((uint64_t)(2 * kept) >> 8 * (width - 1 - i));
        }
        memcpy(to += wide ? 8 : 2, pairs, (size_t)size);
        memcpy(to + size, source->bytes + end, (size_t)(source->size - end));
    }
    PyMem_Free(pairs);
    return encoded;
}

PyDoc_STRVAR(with_annotations_doc, "with_annotations(encoded, added, removed=()): as in forwarding_in_python.");

static PyObject *with_annotations(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"encoded", "added", "removed", NULL};
    const values_t *values = PyModule_GetState(module);
    PyObject *of_message, *added, *removed = NULL, *nothing, *encoded = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, named, "OO|O:with_annotations", names, &of_message, &added, &removed))
        return NULL;
    if ((nothing = PyTuple_New(0)) == NULL)
        return NULL;
    bool is_usual = removed == NULL || PyTuple_CheckExact(removed) || PyAnySet_CheckExact(removed);
    if (is_usual && PyBytes_CheckExact(of_message) && PyDict_CheckExact(added)) {
        source_t source = source_of(of_message, values);
        encoded = annotated(&source, added, removed == NULL ? nothing : removed);
    }
    if (encoded == NULL && leave())
        encoded = PyObject_CallFunctionObjArgs(values->in_python[WITH_ANNOTATIONS], of_message, added,
                                               removed == NULL ? nothing : removed, NULL);
    Py_DECREF(nothing);
    return encoded;
}

/* --------------------------------------------------------------------------------------------------------- lifetime */

enum { TTL = 2, EXPIRY = 8 }; /* their places in the header and in the properties */

/* Return the value of the list that begins here which is at `index`, None if the list is shorter. */
static PyObject *item_at(source_t *source, Py_ssize_t index)
{
    const unsigned char *code = take(source, 1);
    if (code == NULL || (*code != 0xC0 && *code != 0xD0))
        return NULL;
    PyObject *list = read_list(source, *code == 0xD0, 0);
    if (list == NULL)
        return NULL;
    PyObject *item = Py_NewRef(index < PyList_Size(list) ? PyList_GetItem(list, index) : Py_None);
    Py_DECREF(list);
    return item;
}

PyDoc_STRVAR(lifetime_of_doc, "lifetime_of(encoded): as in forwarding_in_python.");

static PyObject *lifetime_of(PyObject *module, PyObject *encoded)
{
    const values_t *values = PyModule_GetState(module);
    double ttl_s = HUGE_VAL;
    PyObject *expiry = Py_NewRef(Py_None), *lifetime = NULL;
    bool whole = PyBytes_CheckExact(encoded);
    if (whole) {
        source_t source = source_of(encoded, values);
        for (int code = 0; whole && source.at < source.size;) {
            code = take_section(&source, code);
            if (code > PROPERTIES)
                break;
            PyObject *item = code == HEADER || code == PROPERTIES ? item_at(&source, code == HEADER ? TTL : EXPIRY) : NULL;
            if (item == NULL)
                whole = code == MESSAGE_ANNOTATIONS - 1 || code == MESSAGE_ANNOTATIONS ? skip(&source) : false;
            else if (code == HEADER && PyLong_Check(item) && !PyBool_Check(item)) {
                unsigned long long number = PyLong_AsUnsignedLongLong(item);
                whole = !PyErr_Occurred() && number <= UINT32_MAX; /* a larger one has no exact double */
                ttl_s = (double)number / 1000;
            } else if (code == PROPERTIES && (PyObject *)Py_TYPE(item) == values->datetime_type) {
                Py_DECREF(expiry);
                expiry = Py_NewRef(item);
            }
            Py_XDECREF(item);
        }
    }
    if (whole)
        lifetime = Py_BuildValue("dO", ttl_s, expiry);
    Py_DECREF(expiry);
    return lifetime != NULL ? lifetime : in_python(values, LIFETIME_OF, &encoded, 1);
}

/* Return whether the message may have a time to live or an expiry time; what is not usual may have them. */
static bool may_have_lifetime(source_t *source)
{
    for (int code = 0; source->at < source->size;) {
        Py_ssize_t count = 0, end = 0, index;
        code = take_section(source, code);
        if (code == 0 || code > PROPERTIES)
            return code == 0;
        if (code != HEADER && code != PROPERTIES) {
            if (!skip(source))
                return true;
            continue;
        }
        const unsigned char *list = take(source, 1);
        if (list == NULL || (*list != 0xC0 && *list != 0xD0) || !enter_compound(source, *list == 0xD0, &count, &end))
            return true;
        index = code == HEADER ? TTL : EXPIRY;
        for (Py_ssize_t i = 0; count > index && i < index; i++)
            if (!skip(source))
                return true;
        if (count > index && (source->at >= end || source->bytes[source->at] != 0x40))
            return true;
        source->at = end;
    }
    return false;
}

PyDoc_STRVAR(may_expire_doc, "may_expire(messages): as in forwarding_in_python, and False for more messages.");

static PyObject *may_expire(PyObject *module, PyObject *messages)
{
    const values_t *values = PyModule_GetState(module);
    bool is_list = PyList_CheckExact(messages);
    if (!is_list && !PyTuple_CheckExact(messages))
        return in_python(values, MAY_EXPIRE, &messages, 1);
    for (Py_ssize_t i = 0; i < (is_list ? PyList_Size(messages) : PyTuple_Size(messages)); i++) {
        PyObject *encoded = is_list ? PyList_GetItem(messages, i) : PyTuple_GetItem(messages, i);
        if (!PyBytes_CheckExact(encoded))
            return Py_NewRef(Py_True);
        source_t source = source_of(encoded, values);
        if (source.size < 3 || (source.bytes[2] <= PROPERTIES && may_have_lifetime(&source)))
            return Py_NewRef(Py_True);
    }
    return Py_NewRef(Py_False);
}

/* ----------------------------------------------------------------------------------------------------------- wishes */

enum { DURABLE = 1, PRIORITY = 2, LIFETIME = 4, GROUP = 8, DELAY = 16, COPIES = 32 }; /* as in `asking.py` */

/* The fields of a header and of properties by which a message asks for something. */
static const struct {
    int section;
    Py_ssize_t index;
    long wish;
} FIELDS[] = {
    {HEADER, 0, DURABLE}, {HEADER, 1, PRIORITY}, {HEADER, TTL, LIFETIME}, {PROPERTIES, EXPIRY, LIFETIME}, {PROPERTIES, 10, GROUP},
};

/* The annotations by which it asks, or the begin of their names. */
static const struct {
    const char *name;
    long wish;
} ANNOTATIONS[] = {{"x-opt-delivery-", DELAY}, {"x-opt-scheduled-enqueue-time", DELAY}, {"x-delay", DELAY}, {"x-cc", COPIES}};

/* Return the wishes whose fields the list that begins here has, with any value; -1 if it is not usual. */
static long asked_by_fields(source_t *source, int section)
{
    Py_ssize_t count = 0, end = 0, at = 0;
    long found = 0;
    const unsigned char *list = take(source, 1);
    if (list != NULL && *list == 0x45)
        return 0;
    if (list == NULL || (*list != 0xC0 && *list != 0xD0) || !enter_compound(source, *list == 0xD0, &count, &end))
        return -1;
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        if (FIELDS[i].section != section || FIELDS[i].index >= count)
            continue;
        for (; at < FIELDS[i].index; at++)
            if (!skip(source))
                return -1;
        if (source->at >= end)
            return -1;
        const unsigned char *value = source->bytes + source->at;
        bool is_normal = *value == 0x40 || (*value == 0x42 && FIELDS[i].wish == DURABLE) ||
                         (*value == 0x50 && end - source->at > 1 && value[1] == 4 && FIELDS[i].wish == PRIORITY);
        if (!is_normal)
            found |= FIELDS[i].wish;
    }
    source->at = end;
    return found;
}

/* Return the wishes of the annotations that begin here; -1 if they are not usual. */
static long asked_by_annotations(source_t *source)
{
    Py_ssize_t count = 0, end = 0;
    long found = 0;
    const unsigned char *map = take(source, 1), *code, *name;
    uint64_t length;
    if (map == NULL || (*map != 0xC1 && *map != 0xD1) || !enter_compound(source, *map == 0xD1, &count, &end))
        return -1;
    for (Py_ssize_t i = 0; i < count / 2; i++) {
        if ((code = take(source, 1)) == NULL || *code != 0xA3 || !take_length(source, false, &length) ||
            (name = take(source, length)) == NULL || !skip(source))
            return -1;
        for (size_t j = 0; j < sizeof ANNOTATIONS / sizeof ANNOTATIONS[0]; j++) {
            size_t size = strlen(ANNOTATIONS[j].name);
            if (length >= size && memcmp(name, ANNOTATIONS[j].name, size) == 0)
                found |= ANNOTATIONS[j].wish;
        }
    }
    source->at = end;
    return found;
}

PyDoc_STRVAR(may_ask_doc, "may_ask(encoded, among): as in forwarding_in_python, and False for more messages.");

static PyObject *may_ask(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const values_t *values = PyModule_GetState(module);
    if (count != 2 || !PyBytes_CheckExact(args[0]) || !PyLong_CheckExact(args[1]))
        return in_python(values, MAY_ASK, args, count);
    source_t source = source_of(args[0], values);
    long among = PyLong_AsLong(args[1]), found = 0;
    for (int code = 0; found >= 0 && !(found & among) && source.at < source.size;) {
        code = take_section(&source, code);
        if (code > PROPERTIES)
            break;
        if (code == HEADER || code == PROPERTIES)
            found = asked_by_fields(&source, code);
        else if (code == MESSAGE_ANNOTATIONS)
            found = asked_by_annotations(&source);
        else
            found = code != 0 && skip(&source) ? 0 : -1;
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(found < 0 || (found & among));
}

/* ------------------------------------------------------------------------------------------------------------- bind */

/* Return where objects of `type` keep the attribute `name`, a slot, in bytes; -1 with an exception if nowhere.

   A unique pointer is put there, and searched for. */
static Py_ssize_t slot_of(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t found = -1;
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *sentinel = PyList_New(0), *object = make == NULL ? NULL : make(type, 0);
    PyObject *told = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
    Py_ssize_t size = told == NULL ? -1 : PyLong_AsSsize_t(told);
    if (sentinel != NULL && object != NULL && size >= 0 && PyObject_GenericSetAttr(object, name, sentinel) == 0)
        for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= size && found < 0; at += sizeof(void *))
            if (*(PyObject **)((char *)object + at) == sentinel)
                found = at;
    Py_XDECREF(told);
    Py_XDECREF(object);
    Py_XDECREF(sentinel);
    if (found < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "%S is not a slot", name);
    return found;
}

PyDoc_STRVAR(slots_doc, "slots(type, names): return where objects of `type` keep these attributes, as numbers.");

static PyObject *slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *names;
    if (!PyArg_ParseTuple(args, "O!O!:slots", &PyType_Type, &type, &PyList_Type, &names))
        return NULL;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found != NULL && i < PyList_Size(names); i++) {
        Py_ssize_t at = slot_of((PyTypeObject *)type, PyList_GetItem(names, i));
        PyObject *slot = at < 0 ? NULL : PyLong_FromSsize_t(at);
        if (slot == NULL || PyList_Append(found, slot) < 0)
            Py_CLEAR(found);
        Py_XDECREF(slot);
    }
    return found;
}

static PyMethodDef of_values[] = {
    {"read_list", FAST(read_list_at), METH_FASTCALL, read_list_doc},
    {"read_map", FAST(read_map_at), METH_FASTCALL, read_map_doc},
    {"read_section", FAST(read_section), METH_FASTCALL, read_section_doc},
    {"skip_value", FAST(skip_value), METH_FASTCALL, skip_value_doc},
    {"split_items", FAST(split_items), METH_FASTCALL, split_items_doc},
    {"with_annotations", FAST(with_annotations), METH_VARARGS | METH_KEYWORDS, with_annotations_doc},
    {"lifetime_of", lifetime_of, METH_O, lifetime_of_doc},
    {"may_expire", may_expire, METH_O, may_expire_doc},
    {"may_ask", FAST(may_ask), METH_FASTCALL, may_ask_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(bind_doc, "bind(types, uuid_slots, read_value, in_python, max_depth): return the functions that read values, "
                       "in the order of `in_python`. To be called once.");

static PyObject *bind(PyObject *module, PyObject *args)
{
    values_t *values = PyModule_GetState(module), told = {0};
    if (!PyArg_ParseTuple(args, "(OO!OOOO!)(nn)O(OOOOOOOOO)l:bind", &told.symbol_type, &PyType_Type, &told.uuid_type, &told.unsafe,
                          &told.datetime_type, &told.utc, &PyTuple_Type, &told.narrow, &told.uuid_int_slot, &told.uuid_safety_slot, &told.read_in_python,
                          &told.in_python[0], &told.in_python[1], &told.in_python[2], &told.in_python[3],
                          &told.in_python[4], &told.in_python[5], &told.in_python[6], &told.in_python[7],
                          &told.in_python[8], &told.max_depth))
        return NULL;
    if (values->symbol_type != NULL)
        return PyErr_Format(PyExc_RuntimeError, "bind() has been called before");
    told.make_int = (newfunc)PyType_GetSlot(&PyLong_Type, Py_tp_new);
    told.make_float = (newfunc)PyType_GetSlot(&PyFloat_Type, Py_tp_new);
    told.make_uuid = (allocfunc)PyType_GetSlot((PyTypeObject *)told.uuid_type, Py_tp_alloc);
    told.sixty_four = PyLong_FromLong(64);
    told.keys = PyMem_Calloc(KNOWN_KEYS, sizeof *told.keys);
    if (told.sixty_four == NULL || told.keys == NULL) {
        Py_XDECREF(told.sixty_four);
        PyMem_Free(told.keys);
        return PyErr_NoMemory();
    }
    *values = told;
    PyObject *const borrowed[] = {values->symbol_type, values->uuid_type, values->datetime_type, values->utc,
                                  values->unsafe,      values->narrow,    values->read_in_python};
    for (size_t i = 0; i < sizeof borrowed / sizeof borrowed[0]; i++)
        Py_INCREF(borrowed[i]);
    for (size_t i = 0; i < IN_PYTHON; i++)
        Py_INCREF(values->in_python[i]);
    return functions_of(module, of_values, "rstreams._codec.decode");
}

/* Its functions hold the module, therefore no part of it can go first: there is no `m_clear`. */
static void release(void *module)
{
    values_t *values = PyModule_GetState(module);
    PyObject *const kept[] = {values->symbol_type, values->uuid_type,  values->datetime_type, values->utc,
                               values->unsafe,      values->sixty_four, values->narrow,        values->read_in_python};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        Py_XDECREF(kept[i]);
    for (size_t i = 0; i < IN_PYTHON; i++)
        Py_XDECREF(values->in_python[i]);
    for (size_t i = 0; values->keys != NULL && i < KNOWN_KEYS; i++)
        Py_XDECREF(values->keys[i].key);
    PyMem_Free(values->keys);
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, bind_doc},
    {"slots", slots, METH_VARARGS, slots_doc},
    {NULL, NULL, 0, NULL},
};

/* decode.py compares this number; it changes with the arguments or the result of a function. */
enum { INTERFACE = 4 };

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rstreams._codec._values",
    .m_doc = "AMQP values in C: see decode.py.",
    .m_size = sizeof(values_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__values(void)
{
    return PyModuleDef_Init(&definition);
}

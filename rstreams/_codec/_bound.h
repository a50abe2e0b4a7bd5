/* Functions of a module whose state says what they were bound to: nothing is kept in static variables.

   `load` in loading.py makes a new module each time. Therefore a module of Python that is imported again, or by another
   interpreter, has functions of its own. */

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

/* Return whether Python is to do the work; not after an exception such as KeyboardInterrupt, which has another cause. */
static bool leave(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return false;
    PyErr_Clear();
    return true;
}

/* Return a list with a function of `module` for each method. Their `__module__` is `home`, where pickle finds them. */
static PyObject *functions_of(PyObject *module, PyMethodDef *methods, const char *home)
{
    PyObject *name = PyUnicode_FromString(home), *functions = name == NULL ? NULL : PyList_New(0);
    for (; functions != NULL && methods->ml_name != NULL; methods++) {
        PyObject *function = PyCFunction_NewEx(methods, module, name);
        if (function == NULL || PyList_Append(functions, function) < 0)
            Py_CLEAR(functions);
        Py_XDECREF(function);
    }
    Py_XDECREF(name);
    return functions;
}

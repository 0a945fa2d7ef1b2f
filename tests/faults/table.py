"""faults.yaml: how the faults behind the complaints (complaints.py) are put back, and which test notices. Of each:

    complaints   the numbers; the test must say that it answers them (complaints.py)
    fault        what goes wrong, in a few words
    test         FILE::TEST, as pytest names it
    edits        file, old, new: the text, which must occur exactly once, and what takes its place (`times` times)
"""

import pathlib

import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("faults.yaml")


class Fault:
    def __init__(self, complaints, fault, test, edits):
        self.complaints = [str(n) for n in complaints]
        self.fault, self.test, self.edits = fault, test, edits

    @property
    def files(self):
        return [e["file"] for e in self.edits]

    def __str__(self):
        return f"{', '.join(self.complaints)}: {self.fault}"

    def apply(self, folder):
        """Edits the files below folder; returns {path: text before}. ValueError, and no edit, when one does not fit."""
        before, after = {}, {}
        for edit in self.edits:
            path = pathlib.Path(folder) / edit["file"]
            text = after.get(path) or before.setdefault(path, path.read_text())
            after[path] = self._edited(text, **edit)
        for path, text in after.items():
            path.write_text(text)
        return before

    def check(self):
        """ValueError when an edit does not fit the sources any more."""
        for edit in self.edits:
            self._edited((TOP / edit["file"]).read_text(), **edit)

    def _edited(self, text, file, old, new, times=1):
        count = text.count(old)
        if count != 1:
            raise ValueError(f"{self}: the old text occurs {count} times in {file}:\n{old}")
        if old == new:
            raise ValueError(f"{self}: the new text is the old one")
        return text.replace(old, new * times)


def load():
    return [Fault(**entry) for entry in yaml.safe_load(TABLE.read_text())]

import pytest

from specc.checkpoint.model_card import read_licence


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("---\nlicense: apache-2.0\ntags:\n- llama\n---\nlicense: mit\n", "apache-2.0"),
        ("---\nlanguage:\n- en\nlicense: 'mit'\n---\n", "mit"),
        ("---\nlicense: other\nlicense_name: llama3\n---\n", "llama3"),
        ("---\nlicense: other\n---\n", "other"),
        ("---\nlicense:\n---\n", None),
        ("# A model\nlicense: mit\n", None),
        ("---\ntags: x\n---\nlicense: mit\n", None),
        ("", None),
    ],
)
def test_licence_of_the_front_matter(tmp_path, text, licence):
    (tmp_path / "README.md").write_text(text)
    assert read_licence(tmp_path) == licence


def test_no_readme(tmp_path):
    assert read_licence(tmp_path) is None


def test_readme_that_is_no_text(tmp_path):
    (tmp_path / "README.md").write_bytes(b"---\nlicense: mit\n\xff\xfe\n---\n")
    assert read_licence(tmp_path) == "mit"

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks on one thread: more would wait for each other."""
    torch = pytest.importorskip("torch", reason="needs the extra 'neural'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
